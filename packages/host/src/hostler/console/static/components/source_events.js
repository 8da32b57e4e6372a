// The last events that a channel or a hook brought: what came, what became of each, and its run.
import { html } from "../lib/html.js";
import { brief } from "../lib/brief.js";
import { usePages } from "../lib/fresh.js";
import { t } from "../lib/i18n.js";
import { may } from "../lib/session.js";
import { conversationPage, pageOf } from "../lib/thing_address.js";
import { Listing } from "./listing.js";
import { Table } from "./table.js";
import { ThingLink } from "./thing_link.js";
import { Ago } from "./time.js";

const SECONDS = 5;
const AT_ONCE = 10;
const BAD = new Set(["failed", "rejected"]);

/** Nothing for who may not read events. @param {{of: string}} props who brings them, such as `hook:github` */
export const SourceEvents = ({ of }) => (may("events:read") ? html`<${Events} key=${of} of=${of} />` : null);

/** @param {{of: string}} props */
function Events({ of }) {
  const list = usePages("/v1/events", { requester: of, limit: AT_ONCE }, SECONDS);
  return html`
    <div class="section-head"><h2>${t("source.events")}</h2></div>
    <${Listing} list=${list} empty=${html`<p class="dim">${t("source.no_events")}</p>`}>
      <${Table} label=${t("source.events")} columns=${columns()} rows=${list.items ?? []} keyOf=${(/** @type {any} */ one) => one.event_id} />
    </${Listing}>
  `;
}

/** @returns {import("./table.js").Column[]} */
const columns = () => [
  { key: "created_at", label: t("audit.when"), cell: (one) => html`<span class="nowrap"><${Ago} at=${one.created_at} /></span>` },
  { key: "event_type", label: t("source.event"), wide: true, cell: (one) => html`<span><code>${one.event_type}</code><br /><span class="clamp" dir="auto">${brief(one.input_summary)}</span></span>` },
  { key: "actor_name", label: t("source.from"), cell: (one) => (one.actor_name || one.actor_id) && html`<bdi>${brief(one.actor_name || one.actor_id)}</bdi>` },
  { key: "conversation_id", label: t("runs.conversation"), cell: (one) => one.conversation_id && html`<${ThingLink} to=${conversationPage(one.conversation_id)}>${one.conversation_id}<//>` },
  { key: "outcome", label: t("audit.outcome"), cell: (one) => html`<span class="status ${BAD.has(one.outcome) ? "bad" : one.run_id ? "good" : ""}">${t(`event_outcome.${one.outcome}`)}</span>` },
  { key: "run_id", label: t("source.run"), sort: false, cell: (one) => one.run_id && html`<${ThingLink} to=${pageOf("run", one.run_id)}>${t("messages.run")}<//>` },
];
