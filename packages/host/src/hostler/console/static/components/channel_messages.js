// What is sent through channels: what waits, what nobody knows to have arrived, and what was given up.
import { html } from "../lib/html.js";
import { path, post, remove } from "../lib/api.js";
import { brief } from "../lib/brief.js";
import { usePages } from "../lib/fresh.js";
import { t } from "../lib/i18n.js";
import { address, here, setQuery } from "../lib/router.js";
import { ConfirmButton } from "./confirm.js";
import { Listing } from "./listing.js";
import { attempt } from "./notice.js";
import { Table } from "./table.js";
import { Ago } from "./time.js";

const STATES = ["pending", "sending", "sent", "in_doubt", "failed"];
const SETTLED = new Set(["sent", "in_doubt", "failed"]);
/** @type {Record<string, string>} */
const KINDS = { pending: "waits", sending: "works", sent: "good", in_doubt: "waits", failed: "bad" };

/** @param {{channels: string[]}} props */
export function Messages({ channels }) {
  const { query } = here.value;
  const status = STATES.includes(query.get("status") ?? "") ? query.get("status") : "";
  const channel = channels.includes(query.get("channel") ?? "") ? query.get("channel") : "";
  const list = usePages("/v1/outbox", { status, channel }, 10);
  const resend = (/** @type {any} */ one) => attempt(() => post(path("outbox", one.id, "resend"), {}), t("webhooks.resent")).then(list.reload);
  const drop = (/** @type {any} */ one) => attempt(() => remove(path("outbox", one.id)), t("messages.dropped")).then(list.reload);
  const columns = [
    { key: "created_at", label: t("audit.when"), cell: (/** @type {any} */ one) => html`<${Ago} at=${one.created_at} />` },
    { key: "channel", label: t("channels.channel"), cell: (/** @type {any} */ one) => html`<span><bdi>${one.channel}</bdi><br /><code>${one.chat_id}</code></span>` },
    { key: "text", label: t("messages.message"), wide: true, sort: false, cell: (/** @type {any} */ one) => html`<span>${one.action ? html`<code>${one.action}</code>` : html`<span class="clamp" dir="auto">${brief(one.text)}</span>`}${one.error && html`<span class="wrong clamp" dir="auto">${brief(one.error)}</span>`}${one.run_id && html` <a href=${address("runs", one.run_id)}>${t("messages.run")}</a>`}</span>` },
    { key: "status", label: t("runs.status"), cell: (/** @type {any} */ one) => html`<span class="status ${KINDS[one.status]}">${t(`message_state.${one.status}`)}</span>${one.maybe_twice && html`<br /><span class="dim">${t("messages.twice")}</span>`}` },
    { key: "attempts", label: t("webhooks.tries"), figures: true },
    { key: "do", label: "", sort: false, cell: (/** @type {any} */ one) => html`<span class="row-buttons">
      ${SETTLED.has(one.status) && html`<${ConfirmButton} label=${t("webhooks.resend")} name=${brief(one.text || one.action)} question=${t("messages.resend_sure")} danger=${false} act=${() => resend(one)} />`}
      ${one.status !== "sending" && html`<${ConfirmButton} label=${t("members.remove")} name=${brief(one.text || one.action)} question=${t("messages.drop_sure")} act=${() => drop(one)} />`}</span>` },
  ];
  return html`
    <div class="section-head"><h2>${t("messages.title")}</h2>
      <label class="field"><span>${t("runs.status")}</span><select onChange=${(/** @type {any} */ event) => setQuery({ status: event.target.value })}>
        <option value="">${t("runs.any")}</option>
        ${STATES.map((name) => html`<option key=${name} value=${name} selected=${name === status}>${t(`message_state.${name}`)}</option>`)}</select></label>
      <label class="field"><span>${t("channels.channel")}</span><select onChange=${(/** @type {any} */ event) => setQuery({ channel: event.target.value })}>
        <option value="">${t("runs.any")}</option>
        ${channels.map((name) => html`<option key=${name} value=${name} selected=${name === channel}>${name}</option>`)}</select></label>
    </div>
    <${Listing} list=${list} empty=${html`<p class="dim">${t("messages.none")}</p>`}>
      <${Table} label=${t("messages.title")} columns=${columns} rows=${list.items ?? []} keyOf=${(/** @type {any} */ one) => one.id} />
    </${Listing}>
  `;
}
