// What a run waits for, where it is shown: approve or deny a call, answer a question, say what a tool of ours did.
import { html, useState } from "../lib/html.js";
import { Problem, path, post } from "../lib/api.js";
import { moment } from "../lib/format.js";
import { t } from "../lib/i18n.js";
import { may } from "../lib/session.js";
import { Value } from "./json.js";
import { notice } from "./notice.js";
import { reasonOf } from "./states.js";

/** @typedef {Record<string, any> & {call_id: string, kind: string, decision: string}} Call */

/** @param {{pause: any, decided: () => void}} props */
export function Waits({ pause, decided }) {
  const open = pause.calls.filter((/** @type {Call} */ call) => call.decision === "undecided" || (call.execution === "in_doubt" && pause.status === "needs_review"));
  return html`<div class="waits-for">${open.map((/** @type {Call} */ call) => html`<${One} key=${call.call_id} pause=${pause} call=${call} decided=${decided} />`)}</div>`;
}

/** @param {{pause: any, call: Call, decided: () => void}} props */
function One({ pause, call, decided }) {
  const [busy, setBusy] = useState(false);
  const act = async (/** @type {Record<string, any>} */ action) => {
    setBusy(true);
    try {
      if (action.outcome) await post(`${path("pauses", pause.id, "calls", call.call_id)}/resolve`, action);
      else await post(`${path("pauses", pause.id)}/actions`, { revision: pause.revision, actions: [{ call_id: call.call_id, ...action }] });
    } catch (error) {
      notice(reasonOf(error), true);
      if (!(error instanceof Problem)) return setBusy(false);
    }
    setBusy(false);
    decided();
  };
  const mine = call.may_decide && may("pauses:write"), asks = call.kind === "question";
  const doubt = pause.status === "needs_review" && call.execution === "in_doubt";
  return html`
    <section class="waits-one" aria-label=${t("waits.label")}>
      <h3 dir="auto">${asks ? call.title || t("waits.question") : t(`waits.${doubt ? "doubt" : call.kind}`, { tool: call.tool ?? call.title })}</h3>
      ${call.description && html`<p dir="auto">${call.description}</p>`}
      ${!asks && Object.keys(call.args ?? {}).length > 0 && html`<${Value} value=${call.args} />`}
      ${call.expires_at && html`<p class="dim">${t("waits.until", { moment: moment(call.expires_at) })}</p>`}
      ${!mine ? html`<p class="dim">${t("waits.others")}</p>`
        : doubt || call.kind === "in_doubt" ? html`<${Doubt} act=${act} busy=${busy} />`
        : asks ? html`<${Question} call=${call} act=${act} busy=${busy} />`
        : call.kind === "client_tool" ? html`<${ClientTool} act=${act} busy=${busy} />`
        : html`<${Approval} call=${call} act=${act} busy=${busy} />`}
    </section>
  `;
}

/** @typedef {{act: (action: Record<string, any>) => void, busy: boolean}} Acting */

/** @param {Acting & {call: Call}} props */
function Approval({ call, act, busy }) {
  const [comment, setComment] = useState("");
  const decide = (/** @type {string} */ type) => act({ type, args_hash: call.args_hash, ...(comment && { comment }) });
  return html`
    <div class="waits-actions">
      <button type="button" class="primary" disabled=${busy} onClick=${() => decide("approve")}>${t("waits.approve")}</button>
      <button type="button" class="danger" disabled=${busy} onClick=${() => decide("deny")}>${t("waits.deny")}</button>
      <input value=${comment} maxlength="2000" placeholder=${t("waits.reason")} aria-label=${t("waits.reason")} onInput=${(/** @type {any} */ event) => setComment(event.target.value)} />
    </div>
  `;
}

/** @param {Acting} props */
const Doubt = ({ act, busy }) => html`
  <div class="waits-actions">
    <button type="button" disabled=${busy} onClick=${() => act({ outcome: "happened" })}>${t("waits.happened")}</button>
    <button type="button" disabled=${busy} onClick=${() => act({ outcome: "not_happened" })}>${t("waits.not_happened")}</button>
  </div>
`;

/** The console has no tools: a person says what one did. @param {Acting} props */
function ClientTool({ act, busy }) {
  const [text, setText] = useState("");
  const result = () => {
    try {
      return JSON.parse(text);
    } catch {
      return text;
    }
  };
  return html`
    <label class="stacked">${t("waits.result")}<textarea rows="3" dir="auto" value=${text} onInput=${(/** @type {any} */ event) => setText(event.target.value)}></textarea></label>
    <div class="waits-actions">
      <button type="button" class="primary" disabled=${busy} onClick=${() => act({ type: "result", result: result() })}>${t("waits.give_result")}</button>
      <button type="button" class="danger" disabled=${busy || !text} onClick=${() => act({ type: "error", error: text })}>${t("waits.give_error")}</button>
    </div>
  `;
}

/** @param {Acting & {call: Call}} props */
function Question({ call, act, busy }) {
  const [values, setValues] = useState(() => Object.fromEntries(call.fields.map((/** @type {any} */ field) => [field.name, field.default ?? (field.type === "boolean" ? false : field.type === "multiselect" ? [] : "")])));
  const set = (/** @type {string} */ name, /** @type {any} */ value) => setValues({ ...values, [name]: value });
  const given = () => Object.fromEntries(call.fields.flatMap((/** @type {any} */ field) => {
    const value = values[field.name];
    if (value === "" && !field.required) return [];
    return [[field.name, field.type === "number" ? Number(value) : value]];
  }));
  const answer = (/** @type {string | undefined} */ action) => act({ type: "answer", values: given(), ...(action && { action }) });
  return html`
    <form onSubmit=${(/** @type {Event} */ event) => (event.preventDefault(), answer(call.actions[0]?.name))}>
      ${call.fields.map((/** @type {any} */ field) => html`<${Field} key=${field.name} field=${field} value=${values[field.name]} set=${(/** @type {any} */ value) => set(field.name, value)} />`)}
      <div class="waits-actions">
        ${call.actions.length
          ? call.actions.map((/** @type {any} */ action, /** @type {number} */ place) => html`<button key=${action.name} type=${place ? "button" : "submit"} disabled=${busy}
              class=${place ? (action.style === "danger" ? "danger" : "") : "primary"} onClick=${place ? () => answer(action.name) : undefined}>${action.label ?? action.name}</button>`)
          : html`<button class="primary" disabled=${busy}>${t("waits.answer")}</button>`}
      </div>
    </form>
  `;
}

/** @param {{field: any, value: any, set: (value: any) => void}} props */
function Field({ field, value, set }) {
  const label = field.label ?? field.name, options = (field.options ?? []).map((/** @type {any} */ one) => (one && typeof one === "object" ? [one.value ?? one.name, one.label ?? one.value ?? one.name] : [one, String(one)]));
  const input = (/** @type {any} */ event) => set(event.target.value);
  if (field.type === "boolean") return html`<label class="field"><input type="checkbox" checked=${value} onChange=${(/** @type {any} */ event) => set(event.target.checked)} /> <span dir="auto">${label}</span></label>`;
  return html`
    <label class="stacked"><span dir="auto">${label}${field.required ? " *" : ""}</span>
      ${field.description && html`<span class="help" dir="auto">${field.description}</span>`}
      ${field.type === "textarea" ? html`<textarea rows="3" dir="auto" required=${field.required} value=${value} onInput=${input}></textarea>`
        : field.type === "select" || field.type === "multiselect" ? html`<select required=${field.required} multiple=${field.type === "multiselect"}
            onChange=${(/** @type {any} */ event) => { const at = [...event.target.selectedOptions].map((one) => one.index - (field.type === "select" ? 1 : 0)).filter((place) => place >= 0).map((place) => options[place][0]); set(field.type === "select" ? (at[0] ?? "") : at); }}>
            ${field.type === "select" && html`<option value="" selected=${value === ""}></option>`}
            ${options.map((/** @type {any[]} */ [key, text], /** @type {number} */ place) => html`<option key=${place} value=${String(key)} selected=${field.type === "select" ? key === value : value.includes(key)}>${text}</option>`)}
          </select>`
        : html`<input type=${field.type === "number" ? "number" : "text"} step="any" dir="auto" required=${field.required} value=${value} onInput=${input} />`}
    </label>
  `;
}
