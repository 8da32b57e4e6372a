// Several pauses decided together: only after everything that is approved was on the page.
import { html, useState } from "../lib/html.js";
import { act, approval, denial, isPlain, refusalOf, titleOf } from "../lib/decide.js";
import { t } from "../lib/i18n.js";
import { readPause } from "../lib/live_pauses.js";
import { Dialog } from "./dialog.js";
import { Arguments, Exact } from "./exact.js";
import { notice } from "./notice.js";
import { reasonOf } from "./states.js";

/** @typedef {import("../lib/decide.js").Pause} Pause */

/** As many as a person looks through. */
const MOST = 20;

/** `pauses`: those that are picked; `all`: those that can be. @param {{pauses: Pause[], all: Pause[], pick: (ids: string[]) => void}} props */
export function Several({ pauses, all, pick }) {
  const [shown, setShown] = useState(/** @type {Pause[] | null} */ (null));
  const every = pauses.length >= Math.min(all.length, MOST);
  return html`
    <div class="several">
      <label class="check"><input type="checkbox" checked=${every} onChange=${() => pick(every ? [] : all.slice(0, MOST).map((pause) => pause.id))} />
        ${pauses.length ? t("approvals.picked", { count: pauses.length }) : t("approvals.pick_all", { count: Math.min(all.length, MOST) })}</label>
      ${pauses.length > 0 && html`<button type="button" class="primary" onClick=${() => setShown(pauses.slice(0, MOST))}>${t("approvals.together")}</button>`}
    </div>
    ${shown && html`<${Review} pauses=${shown} close=${() => setShown(null)} done=${() => (pick([]), setShown(null))} />`}
  `;
}

/** `pauses` as they were when the dialog opened: what is decided is what is shown. @param {{pauses: Pause[], close: () => void, done: () => void}} props */
function Review({ pauses, close, done }) {
  const [busy, setBusy] = useState(false), [reason, setReason] = useState(""), [wrong, setWrong] = useState(/** @type {[string, string][]} */ ([]));
  async function decide(/** @type {"approve" | "deny"} */ kind) {
    setBusy(true);
    /** @type {[string, string][]} */
    const failed = [];
    for (const pause of pauses) {
      const calls = pause.calls.filter((call) => isPlain(pause, call));
      try {
        await act(pause, calls.map((call) => (kind === "approve" ? approval(call, reason.trim() ? { comment: reason.trim() } : {}) : denial(call, reason.trim()))));
      } catch (error) {
        failed.push([titleOf(pause.calls[0]), refusalOf(error) || reasonOf(error)]);
      }
    }
    await Promise.allSettled(pauses.map((pause) => readPause(pause.id)));
    setBusy(false);
    setWrong(failed);
    if (failed.length) return;
    notice(t(kind === "approve" ? "approvals.approved" : "approvals.denied", { count: pauses.length }));
    done();
  }
  return html`
    <${Dialog} title=${t("approvals.together")} close=${close} wide>
      <ol class="review">
        ${pauses.map((pause) => html`<li key=${pause.id}>
          ${pause.calls.filter((call) => isPlain(pause, call) || wrong.length).map((call) => html`<div key=${call.call_id}>
            <h3 dir="auto"><${Exact} text=${titleOf(call)} /></h3><p class="dim"><bdi>${pause.agent}</bdi>${pause.requester && html` · <bdi>${pause.requester}</bdi>`}</p>
            <${Arguments} args=${call.args} /></div>`)}
        </li>`)}
      </ol>
      <label class="stacked"><span>${t("decision.comment")}</span><input type="text" dir="auto" maxlength="1000" value=${reason} onInput=${(/** @type {any} */ event) => setReason(event.target.value)} /></label>
      ${wrong.map(([title, text]) => html`<p class="wrong" role="alert" dir="auto">${title}: ${text}</p>`)}
      <div class="dialog-actions">
        ${wrong.length
          ? html`<button type="button" class="primary" onClick=${done}>${t("state.close")}</button>`
          : html`<button type="button" class="danger" disabled=${busy} onClick=${() => decide("deny")}>${t("approvals.deny_several", { count: pauses.length })}</button>
              <button type="button" class="primary" disabled=${busy} onClick=${() => decide("approve")}>${t("approvals.approve_several", { count: pauses.length })}</button>`}
      </div>
    </${Dialog}>
  `;
}
