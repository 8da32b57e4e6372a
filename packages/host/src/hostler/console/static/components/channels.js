// The channels: how each connection stands, what came in, and what is not sent yet.
import { html } from "../lib/html.js";
import { get, path, post } from "../lib/api.js";
import { brief } from "../lib/brief.js";
import { t } from "../lib/i18n.js";
import { usePolled } from "../lib/polled.js";
import { address, here } from "../lib/router.js";
import { may } from "../lib/session.js";
import { attempt } from "./notice.js";
import { Messages } from "./channel_messages.js";
import { lazy } from "./lazy.js";
import { PolledStates } from "./polled_states.js";
import { Empty } from "./states.js";
import { Table } from "./table.js";
import { UnreadableEntries } from "./unreadable_entries.js";
import { Ago } from "./time.js";

const ChannelPage = lazy(() => import("./channel_page.js").then((module) => module.ChannelPage));

/** @type {Record<string, string>} */
const KINDS = { connected: "good", connecting: "works", failed: "bad", disabled: "dim", never: "waits" };

/** @param {any} one */
const stateOf = (one) => (one.enabled ? (one.health ?? "never") : "disabled");

/** @param {{name?: string}} props */
export function Section({ name }) {
  if (name !== undefined) return html`<${ChannelPage} key=${name} name=${name} />`;
  return here.value.query.has("new") && may("installation") ? html`<${ChannelPage} key="" name="" />` : html`<${List} />`;
}

function List() {
  const polled = usePolled((signal) => get("/v1/channels", {}, signal).then((page) => page.items), []);
  const channels = polled.value;
  return html`
    <div class="section-head"><p class="dim grow">${t("channels.help")}</p>${may("installation") && html`<a class="button" href="/channels?new=">${t("source.new.channels")}</a>`}</div>
    <${PolledStates} of=${polled} />
    ${channels?.length === 0 && html`<${Empty} title=${t("channels.none")} text=${t("channels.none_text")}>
      <pre class="commands">hostler channels add help-bot channel=plugin:hostler/telegram/telegram config.token=env:TELEGRAM_TOKEN agent=help</pre>
    <//>`}
    ${channels && channels.length > 0 && html`<${Table} label=${t("sources.channels")} rows=${channels} keyOf=${(/** @type {any} */ one) => one.name} columns=${columns(polled.again)} />`}
    <${UnreadableEntries} kind="channels" />
    ${channels && channels.length > 0 && (may("admin") ? html`<${Messages} channels=${channels.map((/** @type {any} */ one) => one.name)} />` : html`<p class="dim">${t("channels.messages_right")}</p>`)}
  `;
}

/** @param {{of: any}} props */
export const ChannelState = ({ of }) => html`<span class="status ${KINDS[stateOf(of)]}">${t(`channel_state.${stateOf(of)}`)}</span>`;

/** @param {() => Promise<void>} again @returns {import("./table.js").Column[]} */
const columns = (again) => [
  { key: "name", label: t("channels.channel"), wide: true, cell: (one) => html`<span><a href=${address("channels", one.name)}><bdi>${one.name}</bdi></a> <span class="dim"><bdi>${one.account_name ?? one.account ?? ""}</bdi></span><br /><code>${one.channel}</code>${one.reason && html`<br /><span class="wrong clamp" dir="auto">${brief(one.reason)}</span>`}${one.webhook && html`<br /><span class="dim">${t("channels.webhook")} <code>${one.webhook}</code></span>`}</span>` },
  { key: "health", label: t("tools.state"), value: stateOf, cell: (one) => html`<${ChannelState} of=${one} />` },
  { key: "agent", label: t("runs.agent"), cell: (one) => one.agent && html`<a class="nowrap" href=${address("agents", one.agent)}><bdi>${one.agent}</bdi></a>` },
  { key: "received", label: t("channels.received"), figures: true },
  { key: "last_event_at", label: t("channels.last"), cell: (one) => one.last_event_at && html`<${Ago} at=${one.last_event_at} />` },
  { key: "waiting", label: t("channels.waiting"), figures: true, cell: (one) => html`<${Count} of=${one} status="pending" count=${one.waiting} />` },
  { key: "in_doubt", label: t("channels.in_doubt"), figures: true, cell: (one) => html`<${Count} of=${one} status="in_doubt" count=${one.in_doubt} />` },
  { key: "failed", label: t("channels.failed"), figures: true, cell: (one) => html`<${Count} of=${one} status="failed" count=${one.failed} />` },
  { key: "do", label: "", sort: false, cell: (one) => may("installation") && html`<button aria-label=${`${t("channels.restart")}: ${one.name}`} onClick=${() => restart(one.name).then(again)}>${t("channels.restart")}</button>` },
];

/** @param {string} name */
export const restart = (name) => attempt(() => post(path("channels", name, "restart"), {}), t("channels.restarted"));

/** How many messages there are, which leads to them. @param {{of: any, status: string, count: number}} props */
const Count = ({ of, status, count }) =>
  count && may("admin") ? html`<a href=${`/channels?${new URLSearchParams({ status, channel: of.name })}`}>${count}</a>` : count;
