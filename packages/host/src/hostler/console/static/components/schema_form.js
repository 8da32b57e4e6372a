// A form from fields (lib/schema_fields.js): of a runner, of a question, or of a JSON Schema.
import { html, useRef, useState } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { isShown, mistakesOf, withDefaults } from "../lib/schema_check.js";
import { placeOf, same } from "../lib/schema_fields.js";
import { Choices, Json, Line, NumberInput, Select, Text, YesNo } from "./schema_inputs.js";
import { ListInput, MapInput, ObjectInput, Prompt } from "./schema_nested.js";
import { FallbackModels, Files, ModelPicker, Names, Secret } from "./schema_pickers.js";

/**
 * @typedef {import("../lib/schema_fields.js").Field} Field
 * @typedef {import("../lib/schema_check.js").Mistakes} Mistakes
 * @typedef {{field: Field, value: any, own: any, set: (value: any) => void, id: string, described: string | null,
 *   invalid: "true" | null, disabled: boolean, place: string, errors: Mistakes, all: boolean}} InputProps
 * `own`: the value that is set, undefined where the default holds; `value`: that, or the default.
 */

/** @type {Record<string, any>} */
const INPUTS = {
  line: Line, text: Text, integer: NumberInput, number: NumberInput, boolean: YesNo, select: Select, multiselect: Choices,
  names: Names, secret: Secret, file: Files, files: Files, prompt: Prompt, model: ModelPicker, rerank: ModelPicker,
  "model-fallback": FallbackModels, knowledge: Names, tools: Names, object: ObjectInput, list: ListInput, map: MapInput,
  json: Json,
};
/** Of several elements: a group with a name, in place of one element with a label. */
const GROUPS = new Set(["multiselect", "names", "secret", "file", "files", "prompt", "model-fallback", "knowledge", "tools", "object", "list", "map"]);
/** What shows the mistakes of its parts itself. */
const CONTAINERS = new Set(["object", "list", "map"]);

/**
 * `values` has only what is set; `change` is called with the next ones. `errors`: what the host found, by place.
 * `all`: show every mistake, also of fields that were not touched yet; after an attempt to send.
 * @param {{fields: Field[], values: Record<string, any>, change: (values: Record<string, any>) => void, place?: string,
 *   errors?: Mistakes, all?: boolean, disabled?: boolean, id?: string}} props
 */
export function SchemaForm({ fields, values, change, place = "", errors = new Map(), all = false, disabled = false, id = "form" }) {
  const [touched, setTouched] = useState(/** @type {Set<string>} */ (new Set()));
  const found = mistakesOf(fields, values, place), filled = withDefaults(fields, values);
  // a browser fills in several fields at once, before the form is drawn again
  const latest = useRef(values);
  latest.current = values;
  const set = (/** @type {string} */ name, /** @type {any} */ value) => {
    const next = { ...latest.current, [name]: value };
    if (value === undefined) delete next[name];
    latest.current = next;
    change(next);
  };
  return html`<div class="schema-form">
    ${fields.filter((field) => isShown(field, filled, fields)).map((field) => {
      const at = placeOf(place, field.name);
      const own = all || touched.has(field.name);
      return html`<${FieldOf}
        key=${field.name} field=${field} own=${values[field.name]} set=${(/** @type {any} */ value) => set(field.name, value)}
        place=${at} errors=${errors} all=${own} id=${`${id}-${place}-${field.name}`.replace(/[^\w-]+/g, "-")} disabled=${disabled}
        wrong=${(own && at_(found, at, field)) || at_(errors, at, field)}
        touch=${() => touched.has(field.name) || setTouched(new Set([...touched, field.name]))}
      />`;
    })}
  </div>`;
}

/** The mistake of a field, and of its parts where it does not show them itself. @param {Mistakes} found @param {string} place @param {Field} field */
function at_(found, place, field) {
  if (found.has(place)) return found.get(place);
  if (CONTAINERS.has(field.kind)) return undefined;
  const inner = [...found.keys()].find((key) => key.startsWith(`${place}.`) || key.startsWith(`${place}[`));
  return inner === undefined ? undefined : `${inner.slice(place.length).replace(/^\./, "")}: ${found.get(inner)}`;
}

/**
 * One field with its label, help, and what is wrong.
 * @param {{field: Field, own: any, set: (value: any) => void, place: string, errors: Mistakes, all: boolean, id: string,
 *   disabled: boolean, wrong?: string, touch: () => void}} props
 */
export function FieldOf({ field, own, set, place, errors, all, id, disabled, wrong, touch }) {
  const Input = INPUTS[field.kind] ?? Json, group = GROUPS.has(field.kind);
  const value = own === undefined ? field.fallback : own;
  const described = [field.help && `${id}-help`, wrong && `${id}-wrong`].filter(Boolean).join(" ") || null;
  const resets = field.fallback !== undefined && !(Array.isArray(field.fallback) && !field.fallback.length);
  const changed = resets && own !== undefined && !same(own, field.fallback);
  const input = html`<${Input}
    field=${field} value=${value} own=${own} set=${set} id=${id} described=${described} invalid=${wrong ? "true" : null}
    disabled=${disabled} place=${place} errors=${errors} all=${all}
  />`;
  const name = html`<span dir="auto">${field.label}</span>${field.required && html` <span class="required" title=${t("form.required_mark")} aria-hidden="true">*</span>`}`;
  const reset = changed && !disabled && html`<button type="button" class="link" onClick=${() => set(undefined)}>${t("form.reset")}</button>`;
  const about = html`
    ${field.help && html`<p class="help" id=${`${id}-help`} dir="auto">${field.help}</p>`}
    ${wrong && html`<p class="wrong" id=${`${id}-wrong`} dir="auto">${wrong}</p>`}
  `;
  const frame = { class: `entry of-${field.kind} ${wrong ? "is-wrong" : ""}`, "data-place": place, onFocusOut: touch };
  if (field.kind === "boolean" && !(field.required && value === undefined)) {
    return html`<div ...${frame}><div class="entry-head"><label class="check">${input}${name}</label>${reset}</div>${about}</div>`;
  }
  return group
    ? html`<div ...${frame} role="group" aria-labelledby=${`${id}-name`} aria-describedby=${described}>
        <div class="entry-head"><span class="entry-name" id=${`${id}-name`}>${name}</span>${reset}</div>${input}${about}
      </div>`
    : html`<div ...${frame}><div class="entry-head"><label class="entry-name" for=${id}>${name}</label>${reset}</div>${input}${about}</div>`;
}
