// Inputs that hold others: objects, lists, maps, and prompts.
import { html, useState } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { noneOf, placeOf } from "../lib/schema_fields.js";
import { FieldOf, SchemaForm } from "./schema_form.js";
import { Icon } from "./icon.js";

/** @typedef {import("./schema_form.js").InputProps} InputProps */

/** @param {InputProps} props */
export function ObjectInput({ field, value, set, place, errors, all, disabled, id }) {
  const values = value !== null && typeof value === "object" && !Array.isArray(value) ? value : {};
  const change = (/** @type {any} */ next) => set(Object.keys(next).length || field.required ? next : undefined);
  return html`<div class="nested">
    <${SchemaForm} fields=${field.fields} values=${values} change=${change} place=${place} errors=${errors} all=${all} disabled=${disabled} id=${id} />
  </div>`;
}

/** @param {any} kind */
const firstOf = (kind) => (kind.fallback !== undefined ? kind.fallback : kind.kind === "object" || kind.kind === "map" ? {} : kind.kind === "list" ? [] : kind.kind === "boolean" ? false : kind.kind === "line" || kind.kind === "text" ? "" : null);

/** @param {InputProps} props */
export function ListInput({ field, value, set, place, errors, all, disabled, id }) {
  const items = Array.isArray(value) ? value : [], kind = /** @type {any} */ (field.items);
  const put = (/** @type {any[]} */ next) => set(next.length || field.required || field.fallback !== undefined ? next : noneOf(field));
  const swap = (/** @type {number} */ from, /** @type {number} */ to) => {
    const next = [...items];
    [next[from], next[to]] = [next[to], next[from]];
    put(next);
  };
  return html`<div class="nested">
    ${items.map((item, index) => html`<div class="item" key=${index}>
      <div class="grow"><${FieldOf} field=${{ ...kind, name: String(index), label: `${index + 1}`, required: true }} own=${item}
        set=${(/** @type {any} */ next) => put(items.map((one, number) => (number === index ? next ?? firstOf(kind) : one)))}
        place=${`${place}[${index}]`} errors=${errors} all=${all} id=${`${id}-${index}`} disabled=${disabled} wrong=${errors.get(`${place}[${index}]`)} touch=${() => {}} /></div>
      ${!disabled && html`<div class="item-actions">
        ${index > 0 && html`<button type="button" class="quiet" aria-label=${t("form.up", { number: index + 1 })} onClick=${() => swap(index, index - 1)}>↑</button>`}
        <button type="button" class="quiet" aria-label=${t("form.remove", { name: index + 1 })} onClick=${() => put(items.filter((_, number) => number !== index))}><${Icon} name="close" /></button>
      </div>`}
    </div>`)}
    ${!disabled && html`<button type="button" id=${id} onClick=${() => put([...items, firstOf(kind)])}>${t("form.add")}</button>`}
  </div>`;
}

/** Values by names that are typed. @param {InputProps} props */
export function MapInput({ field, value, set, place, errors, all, disabled, id }) {
  const [name, setName] = useState("");
  const values = value !== null && typeof value === "object" && !Array.isArray(value) ? value : {}, kind = /** @type {any} */ (field.items);
  const put = (/** @type {any} */ next) => set(Object.keys(next).length || field.required ? next : undefined);
  const add = () => {
    const key = name.trim();
    if (!key) return;
    if (!Object.hasOwn(values, key)) put({ ...values, [key]: firstOf(kind) });
    setName("");
  };
  return html`<div class="nested">
    ${Object.entries(values).map(([key, item]) => html`<div class="item" key=${key}>
      <div class="grow"><${FieldOf} field=${{ ...kind, name: key, label: key, required: true }} own=${item}
        set=${(/** @type {any} */ next) => put({ ...values, [key]: next ?? firstOf(kind) })}
        place=${placeOf(place, key)} errors=${errors} all=${all} id=${`${id}-${Object.keys(values).indexOf(key)}`} disabled=${disabled} wrong=${errors.get(placeOf(place, key))} touch=${() => {}} /></div>
      ${!disabled && html`<div class="item-actions"><button type="button" class="quiet" aria-label=${t("form.remove", { name: key })}
        onClick=${() => put(Object.fromEntries(Object.entries(values).filter(([one]) => one !== key)))}><${Icon} name="close" /></button></div>`}
    </div>`)}
    ${!disabled && html`<div class="adding">
      <input id=${id} type="text" value=${name} placeholder=${t("form.key")} aria-label=${t("form.key")} autocomplete="off" spellcheck=${false}
        onInput=${(/** @type {any} */ event) => setName(event.target.value)} onKeyDown=${(/** @type {any} */ event) => event.key === "Enter" && !event.isComposing && (event.preventDefault(), add())} />
      <button type="button" disabled=${!name.trim()} onClick=${add}>${t("form.add")}</button>
    </div>`}
  </div>`;
}

const ROLES = ["system", "user", "assistant"];

/** A text, which is one system message, or several messages. @param {InputProps} props */
export function Prompt({ field, value, set, disabled, id, described, invalid }) {
  const messages = typeof value === "string" ? [{ role: "system", content: value }] : Array.isArray(value) ? value : [];
  const list = messages.length ? messages : [{ role: "system", content: "" }];
  const put = (/** @type {any[]} */ next) => set(next.length ? next : field.fallback === undefined ? undefined : "");
  const change = (/** @type {number} */ index, /** @type {any} */ fields) => put(list.map((one, number) => (number === index ? { ...one, ...fields } : one)));
  return html`<div class="nested prompt">
    ${list.map((message, index) => html`<div class="item" key=${index}>
      <div class="grow">
        <select aria-label=${t("form.role")} disabled=${disabled} onChange=${(/** @type {any} */ event) => change(index, { role: event.target.value })}>
          ${[...new Set([...ROLES, message?.role ?? "system"])].map((role) => html`<option key=${role} value=${role} selected=${role === message?.role}>${role}</option>`)}
        </select>
        ${typeof message?.content === "string" || message?.content === undefined
          ? html`<textarea id=${index ? null : id} rows="3" dir="auto" aria-label=${t("form.message", { number: index + 1 })} aria-describedby=${described} aria-invalid=${invalid}
              disabled=${disabled} value=${message?.content ?? ""} onInput=${(/** @type {any} */ event) => change(index, { content: event.target.value })} />`
          : html`<pre class="value">${JSON.stringify(message.content, null, 2)}</pre>`}
      </div>
      ${!disabled && list.length > 1 && html`<div class="item-actions">
        ${index > 0 && html`<button type="button" class="quiet" aria-label=${t("form.up", { number: index + 1 })} onClick=${() => put(list.map((one, number) => (number === index ? list[index - 1] : number === index - 1 ? message : one)))}>↑</button>`}
        <button type="button" class="quiet" aria-label=${t("form.remove", { name: index + 1 })} onClick=${() => put(list.filter((_, number) => number !== index))}><${Icon} name="close" /></button>
      </div>`}
    </div>`)}
    ${!disabled && html`<button type="button" onClick=${() => put([...list, { role: "user", content: "" }])}>${t("form.add_message")}</button>`}
  </div>`;
}
