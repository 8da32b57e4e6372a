// Approvals of similar calls ahead with uses and time left, and an end to each.
import { html } from "../lib/html.js";
import { path, remove } from "../lib/api.js";
import { usePages } from "../lib/fresh.js";
import { t } from "../lib/i18n.js";
import { address } from "../lib/router.js";
import { may } from "../lib/session.js";
import { actorPage, conversationPage, pageOf } from "../lib/thing_address.js";
import { ConfirmButton } from "./confirm.js";
import { Listing } from "./listing.js";
import { attempt } from "./notice.js";
import { Empty } from "./states.js";
import { Table } from "./table.js";
import { ThingLink } from "./thing_link.js";
import { Until } from "./until.js";

const SECONDS = 5;

export function SimilarList() {
  const list = usePages("/v1/approval-rules", {}, SECONDS);
  const revoke = (/** @type {any} */ rule) => attempt(() => remove(path("approval-rules", rule.rule_id)), t("similar.revoked")).then(list.reload);
  /** @type {import("./table.js").Column[]} */
  const columns = [
    { key: "tool", label: t("similar.tool"), wide: true, cell: (rule) => html`<span><a href=${address("approvals", rule.pause_id)}><bdi>${rule.tool}</bdi></a><br /><span class="dim" dir="auto">${equalsOf(rule)}</span>${rule.lapsed && html`<br /><span class="wrong">${t("similar.lapsed")}</span>`}</span>` },
    { key: "agent", label: t("runs.agent"), cell: (rule) => rule.agent && html`<span><${ThingLink} to=${pageOf("agent", rule.agent)}>${rule.agent}<//>${placeOf(rule)}</span>` },
    { key: "requester", label: t("similar.for"), cell: (rule) => rule.requester && html`<${ThingLink} to=${actorPage(rule.requester)}>${rule.requester}<//>` },
    { key: "approved_by", label: t("similar.by"), cell: (rule) => html`<${ThingLink} to=${actorPage(rule.approved_by)}>${rule.approved_by_name ?? rule.approved_by}<//>` },
    { key: "uses_left", label: t("similar.uses"), figures: true },
    { key: "expires_at", label: t("similar.until"), cell: (rule) => html`<${Until} at=${rule.expires_at} />` },
    ...(may("pauses:write") ? [{ key: "do", label: "", sort: false, cell: (/** @type {any} */ rule) => html`<${ConfirmButton} label=${t("similar.revoke")} name=${rule.tool.slice(0, 60)} question=${t("similar.revoke_sure")} act=${() => revoke(rule)} />` }] : []),
  ];
  return html`
    <p class="dim">${t("similar.help")}</p>
    <${Listing} list=${list} empty=${html`<${Empty} title=${t("approvals.none.similar")} text=${t("approvals.none_text.similar")} />`}>
      <${Table} label=${t("approvals.tab.similar")} columns=${columns} rows=${list.items ?? []} keyOf=${(/** @type {any} */ rule) => rule.rule_id} />
    </${Listing}>
  `;
}

/** Which arguments have to be equal. @param {{arguments: string[] | null}} rule */
function equalsOf({ arguments: names }) {
  if (names === null) return t("similar.all_equal");
  return names.length ? t("similar.equal", { names: names.join(", ") }) : t("similar.any");
}

/** @param {{conversation_id: string | null}} rule */
const placeOf = ({ conversation_id }) => conversation_id && html` · <${ThingLink} to=${conversationPage(conversation_id)}>${conversation_id}<//>`;
