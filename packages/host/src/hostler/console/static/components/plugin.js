// One plugin: what it is and may do, its process, log, confirmation and runners.
import { html } from "../lib/html.js";
import { Problem, get, path, post } from "../lib/api.js";
import { duration, moment, number } from "../lib/format.js";
import { t } from "../lib/i18n.js";
import { useShown } from "../lib/kept_state.js";
import { permissionsOf } from "../lib/permissions.js";
import { usePolled } from "../lib/polled.js";
import { setQuery } from "../lib/router.js";
import { may } from "../lib/session.js";
import { LogView } from "./log_view.js";
import { attempt } from "./notice.js";
import { Permissions } from "./permissions.js";
import { PluginEntry, pluginDraft } from "./plugin_entry.js";
import { PluginPin } from "./plugin_pin.js";
import { PluginState } from "./plugin_state.js";
import { RunnerForms } from "./runner_forms.js";
import { Failure, Loading } from "./states.js";
import { Ago } from "./time.js";

/** @param {{name: string}} props */
export function Plugin({ name }) {
  const read = async (/** @type {AbortSignal} */ signal) => {
    const [plugin, runners, tools] = await Promise.all([get(path("plugins", name), {}, signal), get("/v1/runners", {}, signal), get("/v1/tools", {}, signal)]);
    return {
      plugin,
      runners: runners.items.filter((/** @type {any} */ one) => one.id.startsWith(`plugin:${name}/`)),
      tools: tools.items.filter((/** @type {any} */ one) => one.owner === name),
    };
  };
  const { value, error, connected, again } = usePolled(read, [name], 3);
  const [changes] = useShown(pluginDraft(name));
  return html`
    <header class="head">
      <h1><a class="back" href="/plugins" aria-label=${t("plugins.back")}>←</a> <bdi>${name}</bdi></h1>
      ${value && html`<${PluginState} plugin=${value.plugin} />`}
      ${!connected && html`<span class="offline" role="status">${t("state.reconnecting")}</span>`}
      ${value && may("installation") && html`<${Actions} plugin=${value.plugin} again=${again} />`}
    </header>
    ${error && html`<${Failure} error=${error} retry=${again} title=${error instanceof Problem && error.status === 404 ? t("plugins.gone") : undefined} />`}
    ${!error && !value && html`<${Loading} />`}
    ${!error && value && html`
      <${Troubles} plugin=${value.plugin} />
      ${value.plugin.pin?.changed && html`<${PluginPin} plugin=${value.plugin} again=${again} />`}
      <${Facts} plugin=${value.plugin} />
      <${Permissions} permissions=${permissionsOf(value.plugin, value.runners, value.tools)} />
      <section class="card">
        <h2>${t("log.title")}</h2>
        ${may("installation") ? html`<${LogView} plugin=${name} />` : html`<p class="dim">${t("log.right")}</p>`}
      </section>
      ${value.plugin.pin && !value.plugin.pin.changed && html`<${PluginPin} plugin=${value.plugin} again=${again} />`}
      ${may("installation") && value.plugin.source === "folder" && html`
        <section class="card"><details open=${changes || null}><summary>${t("entry.title")}</summary><${PluginEntry} name=${name} done=${again} /></details></section>`}
      <${RunnerForms} runners=${value.runners} tools=${value.tools} />
    `}
  `;
}

/** @param {{plugin: any, again: () => Promise<void>}} props */
function Actions({ plugin, again }) {
  const restart = () => attempt(() => post(path("plugins", plugin.plugin, "restart"), {}), t("plugins.restarted")).then(again);
  return html`<div class="actions">
    ${plugin.level !== "remote" && html`<button onClick=${restart} title=${t("plugins.restart_help")}>${t("plugins.restart")}</button>`}
  </div>`;
}

/** What is wrong with it. @param {{plugin: any}} props */
const Troubles = ({ plugin }) => html`
  ${plugin.reason && html`<div class="failure in-place" role="status"><p dir="auto">${plugin.reason}</p>
    ${plugin.retry_in_seconds !== null && html`<p class="dim">${t("plugins.retry", { time: duration(plugin.retry_in_seconds) })}</p>`}
  </div>`}
  ${plugin.warnings.map((/** @type {string} */ text) => html`<p key=${text} class="warning" dir="auto">${text}</p>`)}
`;

/** @param {{plugin: any}} props */
function Facts({ plugin }) {
  const facts = /** @type {[string, any][]} */ ([
    ["plugins.version", plugin.version || "–"],
    ["plugins.source", t(`source.${plugin.source}`)],
    ["plugins.level", html`${t(`level.${plugin.level}`)} <span class="dim">– ${t(`level_help.${plugin.level}`)}</span>`],
    ["plugins.process", plugin.pid === null ? t("plugins.no_process") : t("plugins.pid", { pid: plugin.pid, mechanism: plugin.containment ?? "–" })],
  ]);
  if (plugin.started_at) facts.push(["plugins.started", html`<${Ago} at=${plugin.started_at} /> <span class="dim">(${moment(plugin.started_at)})</span>`]);
  facts.push(["plugins.active", number(plugin.active_runs)], ["plugins.restarts", html`${number(plugin.restarts)} <button class="link" onClick=${() => setQuery({ find: "-- hostler:" })}>${t("plugins.restarts_help")}</button>`]);
  return html`<dl class="facts card">${facts.map(([key, value]) => html`<dt key=${key}>${t(key)}</dt><dd dir="auto">${value}</dd>`)}</dl>`;
}
