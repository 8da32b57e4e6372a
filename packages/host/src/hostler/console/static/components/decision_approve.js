// Approving and denying one call: with edits where they are allowed, with a reason, and for similar calls ahead.
import { html, useId, useState } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { MAX_SIMILAR_MINUTES, MAX_SIMILAR_USES, act, approval, denial, mayAdd, mayApproveSimilar } from "../lib/decide.js";
import { useKept, useKeptForm } from "../lib/kept_state.js";
import { mistakesOf } from "../lib/schema_check.js";
import { fieldsOfSchema, same } from "../lib/schema_fields.js";
import { SchemaForm } from "./schema_form.js";

/**
 * @typedef {import("../lib/decide.js").Pause} Pause
 * @typedef {import("../lib/decide.js").Call} Call
 * @typedef {import("./decision.js").Sending} Sending
 * @typedef {{pause: Pause, call: Call, sending: Sending, ready: boolean}} ActProps
 * @typedef {{on: boolean, uses: string, minutes: string, different: string[]}} Similar
 */

/** @type {Similar} */
const NONE = { on: false, uses: "5", minutes: "30", different: [] };

/** @param {ActProps} props */
export function Approve({ pause, call, sending, ready }) {
  const name = `${pause.id} ${call.call_id} ${call.args_hash}`, id = useId();
  const [comment, setComment] = useKept(`${name} comment`, "");
  const every = fieldsOf(call), fields = every.filter((field) => !call.locked.includes(field.name));
  const [edited, setEdited] = useKeptForm(`${name} edited`, every, /** @type {Record<string, any> | null} */ (null), call.args);
  const [similar, setSimilar] = useState(NONE);
  const [mode, setMode] = useState(/** @type {"" | "deny" | "note"} */ (comment ? "note" : ""));
  const [all, setAll] = useState(false);
  const changed = edited !== null && !same(edited, call.args);
  const approves = call.review === null && mayAdd(call);
  const wrong = mistakesIn(similar);
  async function decide(/** @type {"approve" | "deny"} */ kind) {
    if (kind === "approve" && ((edited && mistakesOf(fields, edited).size) || (similar.on && wrong))) return void setAll(true);
    const more = {
      ...(comment.trim() && { comment: comment.trim() }),
      ...(changed && { edited_args: edited }),
      ...(similar.on && { similar: similarOf(similar, call) }),
    };
    if (await sending.send(() => act(pause, [kind === "approve" ? approval(call, more) : denial(call, comment.trim())]))) {
      setComment(undefined);
      setEdited(undefined);
    }
  }
  return html`
    ${!approves && html`<p class="dim">${t(call.review ? "decision.only_denied" : "decision.of_installation")}</p>`}
    ${edited !== null && html`<div class="editing">
      <h4>${t("decision.edit")}</h4>
      <${SchemaForm} fields=${fields} values=${edited} change=${(/** @type {any} */ values) => setEdited({ ...call.args, ...values, ...gone(fields, values) })} all=${all} id=${id} />
      ${call.locked.length > 0 && html`<p class="help">${t("decision.locked_help", { names: call.locked.join(", ") })}</p>`}
    </div>`}
    ${similar.on && html`<${SimilarForm} call=${call} similar=${similar} set=${setSimilar} wrong=${all ? wrong : ""} />`}
    ${mode && html`<label class="stacked"><span>${t(mode === "deny" ? "decision.reason" : "decision.comment")}</span>
      <textarea rows="2" dir="auto" maxlength="1000" value=${comment} onInput=${(/** @type {any} */ event) => setComment(event.target.value || undefined)} />
      <span class="help">${t("decision.comment_help")}</span></label>`}
    <div class="decide-bar">
      ${mode === "deny"
        ? html`<button type="button" class="danger" disabled=${!ready} onClick=${() => decide("deny")}>${t("decision.deny")}</button>
            <button type="button" onClick=${() => setMode("")}>${t("dialog.cancel")}</button>`
        : html`${approves && html`<button type="button" class="primary approve" disabled=${!ready} onClick=${() => decide("approve")}>${t(call.kind === "budget" ? "decision.top_up" : changed ? "decision.approve_changed" : "decision.approve")}</button>`}
            <button type="button" class="danger" disabled=${!ready} onClick=${() => setMode("deny")}>${t("decision.deny_with")}</button>`}
    </div>
    ${mode !== "deny" && approves && html`<div class="more-ways">
      ${call.editable && fields.length > 0 && html`<button type="button" class="quiet" aria-expanded=${edited !== null} onClick=${() => setEdited(edited === null ? call.args : undefined)}>${t(edited === null ? "decision.edit" : "decision.no_edit")}</button>`}
      ${mayApproveSimilar(call) && html`<button type="button" class="quiet" aria-expanded=${similar.on} onClick=${() => setSimilar({ ...similar, on: !similar.on })}>${t(similar.on ? "decision.no_similar" : "decision.similar")}</button>`}
      <button type="button" class="quiet" aria-expanded=${mode === "note"} onClick=${() => setMode(mode ? "" : "note")}>${t("decision.comment")}</button>
    </div>`}
  `;
}

/** The arguments as fields, also those that are locked. @param {Call} call */
function fieldsOf(call) {
  const schema = { ...(call.args_schema ?? { type: "object" }) };
  const known = fieldsOfSchema(schema), names = new Set(known.map((field) => field.name));
  const stray = Object.keys(call.args).filter((name) => !names.has(name)).map((name) => ({ name, kind: "json", label: name, help: "", required: false, literal: /** @type {"schema"} */ ("schema") }));
  return [...known, ...stray];
}

/** Fields that were emptied, so that they are left out of the arguments. @param {any[]} fields @param {Record<string, any>} values */
const gone = (fields, values) => Object.fromEntries(fields.filter((field) => !(field.name in values)).map((field) => [field.name, undefined]));

/** @param {Similar} similar */
function mistakesIn({ uses, minutes }) {
  if (!/^\d+$/.test(uses) || Number(uses) < 1 || Number(uses) > MAX_SIMILAR_USES) return t("decision.similar_uses_wrong", { most: MAX_SIMILAR_USES });
  if (!/^\d+$/.test(minutes) || Number(minutes) < 1 || Number(minutes) > MAX_SIMILAR_MINUTES) return t("decision.similar_minutes_wrong", { most: MAX_SIMILAR_MINUTES });
  return "";
}

/** @param {Similar} similar @param {Call} call */
const similarOf = ({ uses, minutes, different }, call) => ({
  uses: Number(uses), minutes: Number(minutes),
  ...(different.length && { arguments: Object.keys(call.args).filter((name) => !different.includes(name)) }),
});

/** @param {{call: Call, similar: Similar, set: (similar: Similar) => void, wrong: string}} props */
function SimilarForm({ call, similar, set, wrong }) {
  const names = Object.keys(call.args);
  const toggle = (/** @type {string} */ name) =>
    set({ ...similar, different: similar.different.includes(name) ? similar.different.filter((one) => one !== name) : [...similar.different, name] });
  return html`<fieldset class="similar">
    <legend>${t("decision.similar")}</legend>
    <p class="help">${t("decision.similar_help", { tool: call.tool })}</p>
    <div class="line-of">
      <label class="field"><span>${t("decision.similar_uses")}</span><input inputmode="numeric" value=${similar.uses} onInput=${(/** @type {any} */ event) => set({ ...similar, uses: event.target.value.trim() })} /></label>
      <label class="field"><span>${t("decision.similar_minutes")}</span><input inputmode="numeric" value=${similar.minutes} onInput=${(/** @type {any} */ event) => set({ ...similar, minutes: event.target.value.trim() })} /></label>
    </div>
    ${names.length > 0 && html`<div class="choices" role="group" aria-label=${t("decision.similar_equal")}><p class="dim">${t("decision.similar_equal")}</p>
      ${names.slice(0, 50).map((name) => html`<label class="check" key=${name}><input type="checkbox" checked=${!similar.different.includes(name)} onChange=${() => toggle(name)} /><bdi>${name}</bdi></label>`)}
    </div>`}
    ${similar.different.length > 0 && similar.different.length === names.length && html`<p class="wrong">${t("decision.similar_any", { tool: call.tool })}</p>`}
    ${wrong && html`<p class="wrong" role="alert">${wrong}</p>`}
  </fieldset>`;
}
