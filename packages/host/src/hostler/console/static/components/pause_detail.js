// One pause beside the list, or alone on a phone: where it comes from, what it asks, and what comes next.
import { html, useEffect, useState } from "../lib/html.js";
import { path, post } from "../lib/api.js";
import { WAITING } from "../lib/decide.js";
import { t } from "../lib/i18n.js";
import { pauseOf, readPause } from "../lib/live_pauses.js";
import { address, here } from "../lib/router.js";
import { may, session } from "../lib/session.js";
import { actorPage, conversationPage, pageOf } from "../lib/thing_address.js";
import { Decision } from "./decision.js";
import { Confirm } from "./confirm.js";
import { attempt } from "./notice.js";
import { Failure, Loading } from "./states.js";
import { ThingLink } from "./thing_link.js";
import { Ago } from "./time.js";

/** @typedef {import("../lib/decide.js").Pause} Pause */

/** `next`: the pause after this one, and `left` how many wait. @param {{id: string, next?: string, left: number}} props */
export function PauseDetail({ id, next, left }) {
  const [failed, setFailed] = useState(/** @type {unknown} */ (null));
  const read = () => readPause(id).then((found) => setFailed(found === null ? "gone" : null), setFailed);
  useEffect(() => void read(), [id]);
  const pause = pauseOf(id), query = here.value.query.toString(), more = query ? `?${query}` : "";
  return html`
    <section class="inbox-detail" aria-label=${t("approvals.detail")}>
      <p class="back-line"><a class="back" href=${`/approvals${more}`}>← ${t("approvals.back")}</a></p>
      ${pause
        ? html`<${Head} pause=${pause} read=${read} /><${Decision} pause=${pause} changed=${read} />
            ${!WAITING.has(pause.status) && next && left > 0 && html`<a class="button wide next" href=${address("approvals", next) + more}>${t("approvals.next", { count: left })}</a>`}`
        : failed === "gone" ? html`<${Failure} title=${t("approvals.gone")} text=${t("approvals.gone_text")} />`
        : failed ? html`<${Failure} error=${failed} retry=${read} />`
        : html`<${Loading} />`}
    </section>
  `;
}

/** @param {{pause: Pause, read: () => any}} props */
function Head({ pause, read }) {
  const [asks, setAsks] = useState(false);
  const mine = pause.requester === session.value?.subject || pause.calls.some((call) => call.may_decide);
  const conversation = conversationPage(pause.conversation_id);
  async function cancel() {
    await attempt(() => post(path("pauses", pause.id, "cancel"), {}), t("run.cancelling"));
    setAsks(false);
    await read();
  }
  return html`
    <header class="pause-head">
      <p><strong dir="auto"><${ThingLink} to=${pageOf("agent", pause.agent)}>${pause.agent}<//></strong> ${t("approvals.asks")} <span class="dim"><${Ago} at=${pause.created_at} /></span>
        ${pause.requester && html`<span class="dim"> · ${t("approvals.for")} <${ThingLink} to=${actorPage(pause.requester)}>${pause.requester}<//></span>`}</p>
      <p class="links">
        <a href=${address("runs", pause.run_id)}>${t("approvals.run")}</a>
        ${conversation && html`<a href=${conversation}>${t("approvals.conversation")} <bdi>${pause.conversation_id}</bdi></a>`}
        ${mine && may("pauses:write") && WAITING.has(pause.status) && html`<button type="button" class="link danger-link" onClick=${() => setAsks(true)}>${t("approvals.stop")}</button>`}
      </p>
    </header>
    ${asks && html`<${Confirm} title=${t("approvals.stop")} text=${t("approvals.stop_text")} action=${t("approvals.stop")} confirm=${cancel} close=${() => setAsks(false)} />`}
  `;
}
