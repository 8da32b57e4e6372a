// One pause in a list: what is asked, who asks, until when.
import { html } from "../lib/html.js";
import { isOpen } from "../lib/decide.js";
import { t } from "../lib/i18n.js";
import { address, here } from "../lib/router.js";
import { actorPage, conversationPage, pageOf } from "../lib/thing_address.js";
import { ThingLink } from "./thing_link.js";
import { Ago } from "./time.js";
import { Until } from "./until.js";

/** @typedef {import("../lib/decide.js").Pause} Pause */

export const ROW_PIXELS = 72;

/** `pick`: null where it cannot be picked. @param {{pause: Pause, title: string, chosen: boolean, picked?: boolean, pick?: ((on: boolean) => void) | null}} props */
export function PauseRow({ pause, title, chosen, picked = false, pick = null }) {
  const query = here.value.query.toString();
  const others = pause.calls.length - 1;
  return html`
    <div class=${chosen ? "pause-row chosen" : "pause-row"}>
      ${pick && html`<label class="pick"><input type="checkbox" checked=${picked} aria-label=${t("approvals.pick", { title })}
        onChange=${(/** @type {any} */ event) => pick(event.target.checked)} /></label>`}
      <a href=${address("approvals", pause.id) + (query ? `?${query}` : "")} aria-current=${chosen ? "true" : null}>
        <span class="pause-title"><bdi>${title}</bdi>${others > 0 && html` <span class="dim">${t("approvals.and_more", { count: others })}</span>`}</span>
        <span class="pause-when">${when(pause)}</span>
      </a>
      <span class="pause-who dim"><${ThingLink} to=${pageOf("agent", pause.agent)}>${pause.agent}<//>
        ${pause.requester && html` · <${ThingLink} to=${actorPage(pause.requester)}>${pause.requester}<//>`}
        ${pause.conversation_id && html` · <${ThingLink} to=${conversationPage(pause.conversation_id)}>${pause.conversation_id}<//>`}</span>
    </div>
  `;
}

/** @param {Pause} pause */
function when(pause) {
  if (pause.status === "needs_review") return html`<span class="status waits">${t("approvals.review")}</span>`;
  if (pause.calls.some(isOpen)) return pause.expires_at === null ? html`<span class="dim"><${Ago} at=${pause.created_at} /></span>` : html`<${Until} at=${pause.expires_at} />`;
  const at = Math.max(0, ...pause.calls.map((call) => call.decided_at ?? 0)) || pause.settled_at || pause.created_at;
  return html`<span class="dim"><${Ago} at=${at} /></span>`;
}
