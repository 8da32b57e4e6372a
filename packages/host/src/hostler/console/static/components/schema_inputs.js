// The simple inputs of a form: text, numbers, choices, JSON.
import { html, useState } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { noneOf, same, unfinished, unfinishedText } from "../lib/schema_fields.js";

/** @typedef {import("./schema_form.js").InputProps} InputProps */

/** What inputs have in common. @param {InputProps} props */
const common = ({ id, described, invalid, disabled, field }) => ({
  id, "aria-describedby": described, "aria-invalid": invalid, "aria-required": field.required ? "true" : null, disabled,
});

/** Without a default an empty text is none; with one, it takes the place of the default. @param {InputProps} props @param {string} text */
const textOr = ({ field }, text) => (text === "" && field.fallback === undefined ? noneOf(field) : text);

const LONG_CHARS = 5_000;

/** A field does not grow with a long text, nor wrap endless words: browsers measure those for seconds. @param {string} text */
const sizeOf = (text) => (text.length <= LONG_CHARS ? "" : /\S{1000}/.test(text) ? "long unbroken" : "long");

/** @param {InputProps} props */
export const Line = (props) => html`
  <input ...${common(props)} type="text" dir="auto" spellcheck=${false} autocomplete="off" value=${asText(props.value)}
    list=${props.field.suggest ? `${props.id}-list` : null} onInput=${(/** @type {any} */ event) => props.set(textOr(props, event.target.value))} />
  ${props.field.suggest && html`<datalist id=${`${props.id}-list`}>${props.field.suggest.map((one) => html`<option key=${one} value=${one} />`)}</datalist>`}
`;

/** @param {InputProps} props */
export const Text = (props) => html`
  <textarea ...${common(props)} class=${sizeOf(asText(props.value))} dir="auto" rows="3" value=${asText(props.value)}
    onInput=${(/** @type {any} */ event) => props.set(textOr(props, event.target.value))} />
`;

/** @param {any} value */
const asText = (value) => (value === undefined || value === null ? "" : typeof value === "string" ? value : JSON.stringify(value));

/** The number that a text is, or the text as something unfinished. @param {string} text */
function numberOf(text) {
  const number = Number(text);
  return /^\s*[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?\s*$/i.test(text) && Number.isFinite(number) ? number : unfinished(text);
}

/** @param {InputProps} props */
export function NumberInput(props) {
  const { field, value, set } = props;
  // `1.` and `1.0` are the number 1, and stay as they were typed
  const [typed, setTyped] = useState("");
  const enter = (/** @type {string} */ text) => {
    setTyped(text);
    set(text.trim() ? numberOf(text) : field.fallback === undefined ? noneOf(field) : null);
  };
  const shown = typed.trim() && same(numberOf(typed), value) ? typed : unfinishedText(value) ?? asText(value);
  return html`<span class="measured">
    <input ...${common(props)} type="text" inputmode=${field.kind === "integer" ? "numeric" : "decimal"} autocomplete="off"
      placeholder=${field.blank} value=${shown} onInput=${(/** @type {any} */ event) => enter(event.target.value)} />
    ${field.unit && html`<span class="dim">${field.unit}</span>`}
  </span>`;
}

/** @param {InputProps} props */
export function YesNo(props) {
  const { field, value, set } = props;
  if (field.required && value === undefined) {
    return html`<select ...${common(props)} onChange=${(/** @type {any} */ event) => set(event.target.value === "yes")}>
      <option value="" selected>${t("form.choose")}</option>
      <option value="yes">${t("form.yes")}</option><option value="no">${t("form.no")}</option>
    </select>`;
  }
  return html`<input ...${common(props)} type="checkbox" checked=${value === true} onChange=${(/** @type {any} */ event) => set(event.target.checked)} />`;
}

/** @param {InputProps} props */
export function Select(props) {
  const { field, value, own, set } = props;
  const options = field.options ?? [];
  const chosen = options.findIndex((option) => same(option.value, value));
  const stray = chosen < 0 && value !== undefined && value !== null && value !== "";
  return html`<select ...${common(props)} onChange=${(/** @type {any} */ event) => set(event.target.value === "" ? noneOf(field) : options[Number(event.target.value)].value)}>
    ${(chosen < 0 || !field.required) && field.fallback === undefined && html`<option value="" selected=${chosen < 0 && !stray}>${field.blank ?? t("form.choose")}</option>`}
    ${stray && html`<option value="" selected disabled>${asText(own)}</option>`}
    ${options.map((option, index) => html`<option key=${index} value=${index} selected=${index === chosen}>${option.label}</option>`)}
  </select>`;
}

/** Several of the options. @param {InputProps} props */
export function Choices({ field, value, set, disabled, invalid, id }) {
  const chosen = Array.isArray(value) ? value : [], options = field.options ?? [];
  const toggle = (/** @type {any} */ one, /** @type {boolean} */ on) =>
    set(options.map((option) => option.value).filter((each) => (same(each, one) ? on : chosen.some((other) => same(other, each)))));
  return html`<div class="choices" aria-invalid=${invalid}>
    ${options.map((option, index) => html`<label class="check" key=${index}>
      <input type="checkbox" id=${index ? null : id} disabled=${disabled} checked=${chosen.some((one) => same(one, option.value))}
        onChange=${(/** @type {any} */ event) => toggle(option.value, event.target.checked)} /><span dir="auto">${option.label}</span>
    </label>`)}
    ${chosen.filter((one) => !options.some((option) => same(option.value, one))).map((one) => html`<label class="check" key=${`stray ${asText(one)}`}>
      <input type="checkbox" checked disabled=${disabled} onChange=${() => set(chosen.filter((other) => !same(other, one)))} /><s dir="auto">${asText(one)}</s>
    </label>`)}
  </div>`;
}

/** The value that a text is as JSON, or the text as something unfinished. @param {string} text */
function jsonOf(text) {
  if (!text.trim()) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return unfinished(text);
  }
}

/** Any JSON value. @param {InputProps} props */
export function Json(props) {
  const { value, set } = props;
  const [typed, setTyped] = useState("");
  const enter = (/** @type {string} */ text) => (setTyped(text), set(jsonOf(text)));
  // what is typed stays as it is while it means the same
  const shown = typed && same(jsonOf(typed), value) ? typed : unfinishedText(value) ?? (value === undefined ? "" : JSON.stringify(value, null, 2));
  return html`<textarea ...${common(props)} class=${`code ${sizeOf(shown)}`} dir="ltr" rows="3" spellcheck=${false} value=${shown}
    onInput=${(/** @type {any} */ event) => enter(event.target.value)} />`;
}
