// The plugins that are installed, and one of them.
import { html } from "../lib/html.js";
import { get } from "../lib/api.js";
import { brief } from "../lib/brief.js";
import { t } from "../lib/i18n.js";
import { useShown } from "../lib/kept_state.js";
import { highest, permissionsOf } from "../lib/permissions.js";
import { usePolled } from "../lib/polled.js";
import { address } from "../lib/router.js";
import { may } from "../lib/session.js";
import { RiskLabel } from "../components/permissions.js";
import { PluginState } from "../components/plugin_state.js";
import { PluginEntry, pluginDraft } from "../components/plugin_entry.js";
import { Plugin } from "../components/plugin.js";
import { Empty, Failure, Loading } from "../components/states.js";
import { Table } from "../components/table.js";
import { Ago } from "../components/time.js";
import { UnreadableEntries } from "../components/unreadable_entries.js";

/** @param {{plugin?: string}} props */
export const Page = ({ plugin }) => (plugin ? html`<${Plugin} key=${plugin} name=${plugin} />` : html`<${Plugins} />`);

/** Plugins with their runners and tools. @param {AbortSignal} signal */
async function read(signal) {
  const [plugins, runners, tools] = await Promise.all(["plugins", "runners", "tools"].map((kind) => get(`/v1/${kind}`, {}, signal)));
  return plugins.items.map((/** @type {any} */ one) => {
    const own = runners.items.filter((/** @type {any} */ runner) => one.runners.includes(runner.name) && runner.id.startsWith(`plugin:${one.plugin}/`));
    const offered = tools.items.filter((/** @type {any} */ tool) => tool.owner === one.plugin);
    return { ...one, risk: highest(permissionsOf(one, own, offered)) };
  });
}

function Plugins() {
  const { value: plugins, error, connected, again } = usePolled(read, []);
  const [adds] = useShown(pluginDraft());
  return html`
    <header class="head">
      <h1>${t("page.plugins")}</h1>
      ${connected ? html`<span class="dim">${t("polled.seconds")}</span>` : html`<span class="offline" role="status">${t("state.reconnecting")}</span>`}
    </header>
    ${error && html`<${Failure} error=${error} retry=${again} />`}
    ${!error && !plugins && html`<${Loading} />`}
    ${plugins && may("installation") && html`<details class="card" open=${adds || null}><summary>${t("entry.add_title")}</summary><p class="dim">${t("entry.add_help")}</p><${PluginEntry} done=${again} /></details>`}
    ${plugins?.length === 0 && html`<${Empty} title=${t("plugins.none")} text=${may("installation") ? t("plugins.none_admin") : t("plugins.none_text")}>
      <pre class="commands">hostler plugins add ./my-plugin</pre>
    <//>`}
    ${plugins && plugins.length > 0 && html`<${Table} label=${t("page.plugins")} columns=${columns()} rows=${plugins} keyOf=${(/** @type {any} */ one) => one.plugin} />`}
    <${UnreadableEntries} kind="plugins" />
  `;
}

/** @returns {import("../components/table.js").Column[]} */
const columns = () => [
  { key: "plugin", label: t("plugins.plugin"), wide: true, cell: (one) => html`<span><a href=${address("plugins", one.plugin)}><bdi>${one.plugin}</bdi></a> <span class="dim">${one.version}</span>${one.reason && html`<br /><span class="wrong clamp" dir="auto">${brief(one.reason)}</span>`}</span>` },
  { key: "state", label: t("plugins.state"), cell: (one) => html`<${PluginState} plugin=${one} />` },
  { key: "level", label: t("plugins.level"), cell: (one) => html`<span class="nowrap">${t(`level.${one.level}`)}</span>` },
  { key: "risk", label: t("plugins.risk"), value: (one) => ["low", "medium", "high"].indexOf(one.risk), cell: (one) => html`<${RiskLabel} risk=${one.risk} />` },
  { key: "runners", label: t("plugins.runners"), figures: true, value: (one) => one.runners.length, cell: (one) => one.runners.length },
  { key: "tools", label: t("plugins.tools"), figures: true, value: (one) => one.tools.length, cell: (one) => one.tools.length },
  { key: "active_runs", label: t("plugins.active"), figures: true },
  { key: "restarts", label: t("plugins.restarts"), figures: true },
  { key: "started_at", label: t("plugins.started"), cell: (one) => one.started_at && html`<span class="nowrap"><${Ago} at=${one.started_at} /></span>` },
];
