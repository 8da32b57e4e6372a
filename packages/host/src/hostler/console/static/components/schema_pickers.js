// Inputs for what a host has: models, tools, names, files, secrets.
import { html, useRef, useState } from "../lib/html.js";
import { request } from "../lib/api.js";
import { choices, hasNone } from "../lib/choices.js";
import { t } from "../lib/i18n.js";
import { noneOf } from "../lib/schema_fields.js";
import { may } from "../lib/session.js";
import { Icon } from "./icon.js";
import { attempt } from "./notice.js";

/** @typedef {import("./schema_form.js").InputProps} InputProps */
/** @typedef {import("../lib/choices.js").Choice} Choice */

const UNCHOSEN = new Set(["", "__none__", "__none"]);

/** @param {InputProps} props */
export function ModelPicker({ field, value, set, id, described, invalid, disabled }) {
  return html`<${OneModel} type=${field.kind === "rerank" ? "rerank" : "llm"} value=${value} set=${set} id=${id} described=${described} invalid=${invalid} disabled=${disabled} />`;
}

/** @param {{type: string, value: any, set: (value: any) => void, id?: string, described?: string | null, invalid?: string | null, disabled: boolean, label?: string}} props */
function OneModel({ type, value, set, id, described, invalid, disabled, label }) {
  const fitting = choices("models").filter((one) => (type === "rerank" ? one.type === "rerank" : one.type !== "rerank" && one.type !== "embedding"));
  const current = typeof value === "string" && !UNCHOSEN.has(value) ? value : "";
  const stray = current && !fitting.some((one) => one.value === current);
  return html`${type === "llm" && !disabled && hasNone("models") && html`<${NoModel} />`}<select id=${id} aria-label=${label} aria-describedby=${described} aria-invalid=${invalid} disabled=${disabled}
    onChange=${(/** @type {any} */ event) => set(event.target.value || undefined)}>
    <option value="" selected=${!current}>${t("form.no_model")}</option>
    ${stray && html`<option value=${current} selected>${current}</option>`}
    ${fitting.map((one) => html`<option key=${one.value} value=${one.value} selected=${one.value === current}>${one.note ? t("form.broken", { name: one.value }) : one.value}</option>`)}
  </select>`;
}

const NoModel = () => html`<p class="note">${t("form.no_models")} ${may("installation")
  ? html`<a class="button" href=${`/models?${new URLSearchParams({ new: "", next: location.pathname + location.search })}`}>${t("form.add_model")}</a>` : t("form.no_models_right")}</p>`;

/** A model, and those that are asked if it fails. @param {InputProps} props */
export function FallbackModels({ field, value, set, id, described, invalid, disabled }) {
  const primary = typeof value === "string" ? value : value?.primary ?? "";
  const fallbacks = Array.isArray(value?.fallbacks) ? value.fallbacks : [];
  const put = (/** @type {string} */ first, /** @type {string[]} */ rest) =>
    set(!first && !rest.length ? (field.fallback === undefined ? undefined : null) : { ...(first && { primary: first }), ...(rest.length && { fallbacks: rest }) });
  return html`<div class="stack">
    <${OneModel} type="llm" value=${primary} set=${(/** @type {any} */ one) => put(one ?? "", fallbacks)} id=${id} described=${described} invalid=${invalid} disabled=${disabled} label=${field.label} />
    <span class="dim" id=${`${id}-then`}>${t("form.fallbacks")}</span>
    <${Chips} names=${fallbacks} set=${(/** @type {string[]} */ rest) => put(primary, rest)} from=${choices("models").filter((one) => one.type !== "rerank" && one.type !== "embedding" && one.value !== primary)}
      id=${`${id}-fallbacks`} label=${t("form.fallbacks")} disabled=${disabled} />
  </div>`;
}

/** @type {Record<string, string>} */
const LISTS = { tools: "tools", knowledge: "knowledge" };

/** A list of names, or patterns of them; without one, `blank` says who decides. @param {InputProps} props */
export function Names({ field, value, set, id, disabled }) {
  const some = Array.isArray(value) || (typeof value === "string" && !UNCHOSEN.has(value));
  const names = Array.isArray(value) ? value : some ? [value] : [];
  const list = field.from ?? LISTS[field.kind], blank = field.blank ?? (field.kind === "names" ? "" : t("form.by_policy"));
  const none = field.fallback === undefined ? noneOf(field) : null;
  const from = field.suggest?.map((one) => ({ value: one, note: "" })) ?? (list ? choices(list) : []);
  return html`<div class="stack">
    ${blank && html`<select id=${id} disabled=${disabled} aria-label=${field.label} onChange=${(/** @type {any} */ event) => set(event.target.value ? [] : none)}>
      <option value="" selected=${!some}>${blank}</option><option value="some" selected=${some}>${t("form.only_these")}</option>
    </select>`}
    ${(some || !blank) && html`<${Chips} names=${names} set=${(/** @type {string[]} */ next) => set(next.length || blank || Array.isArray(field.fallback) ? next : none)} from=${from}
      id=${blank ? `${id}-names` : id} label=${field.label} disabled=${disabled} />
      ${!names.length && blank && html`<p class="help">${t("form.none_of_it")}</p>`}`}
  </div>`;
}

/**
 * Names that are added by typing or choosing, and taken out one by one.
 * @param {{names: any[], set: (names: string[]) => void, from: Choice[], id: string, label: string, disabled: boolean}} props
 */
export function Chips({ names, set, from, id, label, disabled }) {
  const [text, setText] = useState("");
  const add = (/** @type {string} */ name) => {
    if (name.trim() && !names.includes(name.trim())) set([...names, name.trim()]);
    setText("");
  };
  const left = from.filter((one) => !names.includes(one.value));
  return html`<div class="chips">
    ${names.map((name, index) => html`<span class="chip-of" key=${index}><bdi>${typeof name === "string" ? name : JSON.stringify(name)}</bdi>
      ${!disabled && html`<button type="button" class="quiet" aria-label=${t("form.remove", { name })} onClick=${() => set(names.filter((_, number) => number !== index))}><${Icon} name="close" /></button>`}
    </span>`)}
    ${!disabled && html`
      <input id=${id} list=${`${id}-list`} value=${text} placeholder=${t("form.add_name")} aria-label=${t("form.add_to", { name: label })} autocomplete="off" spellcheck=${false}
        onInput=${(/** @type {any} */ event) => (left.some((one) => one.value === event.target.value) && [undefined, "insertReplacementText"].includes(event.inputType) ? add(event.target.value) : setText(event.target.value))}
        onKeyDown=${(/** @type {any} */ event) => event.key === "Enter" && !event.isComposing && (event.preventDefault(), add(text))}
        onBlur=${() => add(text)} />
      <datalist id=${`${id}-list`}>${left.map((one) => html`<option key=${one.value} value=${one.value}>${one.note.slice(0, 80)}</option>`)}</datalist>
    `}
  </div>`;
}

/** Ids of files that are uploaded here, or typed. @param {InputProps} props */
export function Files({ field, value, set, id, disabled, described }) {
  const one = field.kind === "file", ids = Array.isArray(value) ? value : value && !UNCHOSEN.has(value) ? [value] : [];
  const [names, setNames] = useState(/** @type {Record<string, string>} */ ({}));
  const now = useRef(ids);
  now.current = ids; // also while files are on their way
  const put = (/** @type {string[]} */ next) => set(one ? next.at(-1) : next.length ? next : undefined);
  const upload = async (/** @type {any} */ event) => {
    for (const file of [...event.target.files]) {
      const headers = { "content-type": file.type || "application/octet-stream" };
      const made = await attempt(async () => (await request("POST", "/v1/artifacts", { body: file, raw: true, headers, query: { name: file.name.slice(0, 512) } })).json());
      if (!made) continue;
      setNames((before) => ({ ...before, [made.artifact_id]: file.name }));
      now.current = [...now.current, made.artifact_id];
      put(now.current);
    }
    event.target.value = "";
  };
  return html`<div class="stack">
    ${ids.map((file) => html`<span class="chip-of" key=${file}><bdi>${names[file] ?? file}</bdi>
      ${!disabled && html`<button type="button" class="quiet" aria-label=${t("form.remove", { name: names[file] ?? file })} onClick=${() => put(ids.filter((other) => other !== file))}><${Icon} name="close" /></button>`}
    </span>`)}
    ${!disabled && may("artifacts:write") && html`<input id=${id} type="file" multiple=${!one} aria-label=${field.label} aria-describedby=${described} onChange=${upload} />`}
  </div>`;
}

const KINDS = /** @type {[string, string][]} */ ([["typed", ""], ["stored", "secret://"], ["env", "env:"], ["file", "file:"]]);
const HIDDEN = "***";

/** Written, never shown; or a reference to where it is: of `references` nothing else. @param {InputProps} props */
export function Secret({ field, own, set, id, described, invalid, disabled }) {
  const value = typeof own === "string" ? own : "", kinds = field.references ? KINDS.slice(1) : KINDS;
  const written = KINDS.find(([, prefix]) => prefix && value.startsWith(prefix))?.[0] ?? kinds[0][0];
  const [kind, setKind] = useState(written);
  const [replace, setReplace] = useState(false);
  if (value === HIDDEN && !replace) {
    return html`<div class="line-of"><span class="dim">${t("form.has_secret")}</span>
      ${!disabled && html`<button type="button" id=${id} aria-describedby=${described} onClick=${() => setReplace(true)}>${t("form.secret_replace")}</button>`}</div>`;
  }
  const prefix = KINDS.find(([name]) => name === kind)?.[1] ?? "", rest = value !== HIDDEN && value.startsWith(prefix) ? value.slice(prefix.length) : "";
  const enter = (/** @type {any} */ event) => set(event.target.value ? prefix + event.target.value : undefined);
  return html`<div class="line-of">
    <select aria-label=${t("form.secret_kind", { name: field.label })} disabled=${disabled} onChange=${(/** @type {any} */ event) => (setKind(event.target.value), set(undefined))}>
      ${kinds.map(([name]) => html`<option key=${name} value=${name} selected=${name === kind}>${t(`form.from.${name}`)}</option>`)}
    </select>
    <input class="grow" id=${id} type=${kind === "typed" ? "password" : "text"} aria-label=${field.label} aria-describedby=${described} aria-invalid=${invalid} disabled=${disabled}
      autocomplete=${kind === "typed" ? "new-password" : "off"} spellcheck=${false} list=${kind === "stored" ? `${id}-list` : null} value=${rest} onInput=${enter} />
    ${kind === "stored" && html`<datalist id=${`${id}-list`}>${choices("secrets").map((one) => html`<option key=${one.value} value=${one.value} />`)}</datalist>`}
  </div>`;
}
