// Answers of people: to a question, for a tool of the client, and about a call whose outcome nobody knows.
import { html, useId, useState } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { act, resolve } from "../lib/decide.js";
import { useKept, useKeptForm } from "../lib/kept_state.js";
import { mistakesOf } from "../lib/schema_check.js";
import { fieldsOfQuestion, fieldsOfSchema, hasSecret, unfinishedText } from "../lib/schema_fields.js";
import { SchemaForm } from "./schema_form.js";

/** @typedef {import("./decision_approve.js").ActProps} ActProps */

/** @param {ActProps} props */
export function Answer({ pause, call, sending, ready }) {
  const fields = fieldsOfQuestion(call.fields);
  const [values, setValues] = useKeptForm(`${pause.id} ${call.call_id} ${pause.revision} values`, fields, /** @type {Record<string, any>} */ ({}));
  const [all, setAll] = useState(false), id = useId();
  const buttons = call.actions.length ? call.actions : [{ name: null, label: t("decision.answer") }];
  async function answer(/** @type {string | null} */ action) {
    if (mistakesOf(fields, values).size) return void setAll(true);
    const body = { call_id: call.call_id, type: "answer", values, ...(action !== null && { action }) };
    if (await sending.send(() => act(pause, [body]))) setValues(undefined);
  }
  return html`
    ${fields.length > 0 && html`<${SchemaForm} fields=${fields} values=${values} change=${setValues} all=${all} id=${id} />`}
    <div class="decide-bar">
      ${buttons.map((button, place) => html`<button type="button" key=${place} disabled=${!ready} dir="auto"
        class=${button.style === "danger" ? "danger" : button.style === "primary" || (buttons.length === 1 && !button.style) ? "primary" : ""}
        onClick=${() => answer(button.name)}>${button.label || button.name}</button>`)}
    </div>
  `;
}

/** What a person says in place of the client. @param {ActProps} props */
export function ClientResult({ pause, call, sending, ready }) {
  const name = `${pause.id} ${call.call_id} ${pause.revision}`;
  const [open, setOpen] = useKept(`${name} in place`, false), [failed, setFailed] = useKept(`${name} failed`, "");
  const given = useResult(`${name} result`, call.result_schema);
  const send = async (/** @type {any} */ body) => {
    if (!(await sending.send(() => act(pause, [{ call_id: call.call_id, ...body }])))) return;
    given.clear();
    setOpen(undefined);
    setFailed(undefined);
  };
  if (!open) {
    return html`<p class="dim">${t("decision.client_waits")}</p>
      <div class="decide-bar"><button type="button" onClick=${() => setOpen(true)}>${t("decision.client_instead")}</button></div>`;
  }
  return html`
    ${given.form}
    <div class="decide-bar">
      <button type="button" class="primary" disabled=${!ready} onClick=${() => given.take((result) => send({ type: "result", result }))}>${t("decision.send_result")}</button>
    </div>
    <label class="stacked"><span>${t("decision.client_failed")}</span>
      <input type="text" dir="auto" value=${failed} onInput=${(/** @type {any} */ event) => setFailed(event.target.value)} /></label>
    <button type="button" class="danger" disabled=${!ready || !failed.trim()} onClick=${() => send({ type: "error", error: failed.trim() })}>${t("decision.send_error")}</button>
  `;
}

/** @param {ActProps} props */
export function Resolve({ pause, call, sending, ready }) {
  const name = `${pause.id} ${call.call_id} ${pause.revision}`;
  const [happened, setHappened] = useKept(`${name} has happened`, false), [comment, setComment] = useKept(`${name} comment`, "");
  const given = useResult(`${name} happened`, call.result_schema);
  const say = async (/** @type {any} */ body) => {
    const more = comment.trim() ? { comment: comment.trim() } : {};
    if (!(await sending.send(() => resolve(pause, call, { ...body, ...more })))) return;
    given.clear();
    setHappened(undefined);
    setComment(undefined);
  };
  return html`
    <p>${t("decision.doubt_text")}</p>
    <label class="stacked"><span>${t("decision.how_known")}</span>
      <input type="text" dir="auto" maxlength="1000" value=${comment} onInput=${(/** @type {any} */ event) => setComment(event.target.value)} /></label>
    ${happened && given.form}
    <div class="decide-bar">
      ${happened
        ? html`<button type="button" class="primary" disabled=${!ready} onClick=${() => given.take((result) => say({ outcome: "happened", result }))}>${t("decision.happened_send")}</button>
            <button type="button" onClick=${() => setHappened(false)}>${t("dialog.cancel")}</button>`
        : html`<button type="button" disabled=${!ready} onClick=${() => setHappened(true)}>${t("decision.happened")}</button>
            <button type="button" disabled=${!ready} onClick=${() => say({ outcome: "not_happened" })}>${t("decision.not_happened")}</button>`}
    </div>
  `;
}

/**
 * A result: by the form of its schema, or as text or JSON.
 * @param {string} name @param {any} schema
 */
function useResult(name, schema) {
  const [all, setAll] = useState(false), id = useId();
  const fields = schema ? fieldsOfSchema(schema) : [];
  const free = fields.length === 0;
  const shown = free ? [{ name: "result", kind: "text", label: t("part.result"), help: t("decision.result_help"), required: false, secret: hasSecret(schema), literal: /** @type {"schema"} */ ("schema") }] : fields;
  const [values, setValues] = useKeptForm(name, shown, /** @type {Record<string, any>} */ ({}));
  return {
    form: html`<${SchemaForm} fields=${shown} values=${values} change=${setValues} all=${all} id=${id} />`,
    clear: () => setValues(undefined),
    /** @param {(result: any) => any} send */
    take(send) {
      if (mistakesOf(shown, values).size) return setAll(true);
      return send(free ? jsonOrText(values.result) : values);
    },
  };
}

/** JSON where it is JSON, a text otherwise; nothing is null. @param {any} value */
function jsonOrText(value) {
  const text = typeof value === "string" ? value : unfinishedText(value) ?? "";
  if (!text.trim()) return null;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
