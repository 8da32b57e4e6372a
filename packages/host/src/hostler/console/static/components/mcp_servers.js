// The MCP servers: their state, why it is so, and their tools.
import { html } from "../lib/html.js";
import { get, path, post } from "../lib/api.js";
import { brief } from "../lib/brief.js";
import { duration, number } from "../lib/format.js";
import { t } from "../lib/i18n.js";
import { usePolled } from "../lib/polled.js";
import { address, go, here } from "../lib/router.js";
import { may } from "../lib/session.js";
import { lazy } from "./lazy.js";
import { attempt } from "./notice.js";
import { PolledStates } from "./polled_states.js";
import { Empty, Failure } from "./states.js";
import { Table } from "./table.js";
import { Effect, ToolState } from "./tool_state.js";

/** @type {Record<string, string>} */
const KINDS = { ready: "good", connecting: "works", down: "waits", failed: "bad" };

const ToolEntry = lazy(() => import("./resource_entries.js").then((module) => module.ToolEntry));

/** @param {{name?: string}} props */
export const Section = ({ name }) => (name === undefined && here.value.query.has("new") && may("installation") ? html`<${New} />` : html`<${Servers} name=${name} />`);

const New = () => html`
  <h2 class="thing"><a class="back" href="/mcp-servers" aria-label=${t("mcp.back")}>←</a> ${t("source.new.mcp-servers")}</h2>
  <p class="dim">${t("mcp.help")}</p>
  <${ToolEntry} begin="mcp" />
`;

/** @param {{name?: string}} props */
function Servers({ name }) {
  const polled = usePolled(async (signal) => {
    const [servers, tools] = await Promise.all([get("/v1/mcp-servers", {}, signal), get("/v1/tools", {}, signal)]);
    return servers.items.map((/** @type {any} */ one) => ({ ...one, tools: tools.items.filter((/** @type {any} */ tool) => tool.owner === `mcp:${one.name}`) }));
  }, []);
  const servers = polled.value;
  return html`
    ${name === undefined && html`<div class="section-head"><p class="dim grow">${t("mcp.help")}</p>${may("installation") && html`<a class="button" href="/mcp-servers?new=">${t("source.new.mcp-servers")}</a>`}</div>`}
    <${PolledStates} of=${polled} quiet=${name !== undefined} />
    ${servers && (name === undefined ? html`<${List} servers=${servers} />` : html`<${Server} key=${name} server=${servers.find((/** @type {any} */ one) => one.name === name)} name=${name} again=${polled.again} />`)}
  `;
}

/** @param {{server: any}} props */
const State = ({ server }) => html`<span class="status ${KINDS[server.state] ?? "dim"}">${t(`mcp_state.${server.state}`)}</span>`;

/** @param {{servers: any[]}} props */
function List({ servers }) {
  if (!servers.length) {
    return html`<${Empty} title=${t("mcp.none")} text=${t("mcp.none_text")}>
      <pre class="commands">hostler tools add mcp:files 'command=["npx", "-y", "some-file-server"]'</pre>
    <//>`;
  }
  return html`<${Table} label=${t("resources.mcp-servers")} rows=${servers} keyOf=${(/** @type {any} */ one) => one.name} columns=${[
    { key: "name", label: t("mcp.server"), wide: true, cell: (/** @type {any} */ one) => html`<span><a href=${address("mcp-servers", one.name)}><bdi>${one.name}</bdi></a>${one.reason && html`<br /><span class="wrong clamp" dir="auto">${brief(one.reason)}</span>`}</span>` },
    { key: "state", label: t("tools.state"), cell: (/** @type {any} */ one) => html`<${State} server=${one} />` },
    { key: "server", label: t("mcp.identity"), cell: (/** @type {any} */ one) => html`<bdi>${one.server}</bdi>` },
    { key: "tools", label: t("resources.tools"), figures: true, value: (/** @type {any} */ one) => one.tools.length, cell: (/** @type {any} */ one) => one.tools.length },
    { key: "restarts", label: t("plugins.restarts"), figures: true },
  ]} />`;
}

/** @param {{server: any, name: string, again: () => Promise<void>}} props */
function Server({ server, name, again }) {
  if (!server) return html`<${Failure} title=${t("mcp.gone")} text=${name} />`;
  const reconnect = () => attempt(() => post(path("mcp-servers", name, "reconnect"), {}), t("mcp.reconnecting")).then(again);
  return html`
    <h2 class="thing"><a class="back" href="/mcp-servers" aria-label=${t("mcp.back")}>←</a> <bdi>${name}</bdi> <${State} server=${server} />
      ${may("installation") && html`<span class="actions"><button onClick=${reconnect}>${t("mcp.reconnect")}</button></span>`}</h2>
    ${server.reason && html`<div class="failure in-place"><p dir="auto">${server.reason}</p>
      ${server.retry_in_seconds !== null && html`<p class="dim">${t("plugins.retry", { time: duration(server.retry_in_seconds) })}</p>`}</div>`}
    ${server.warnings.map((/** @type {string} */ text) => html`<p key=${text} class="warning" dir="auto">${text}</p>`)}
    <dl class="facts card">
      <dt>${t("mcp.identity")}</dt><dd dir="auto">${server.server || "–"}</dd>
      <dt>${t("plugins.restarts")}</dt><dd>${number(server.restarts)}</dd>
      ${server.last_fault && html`<dt>${t("mcp.fault")}</dt><dd dir="auto">${server.last_fault}</dd>`}
    </dl>
    <section class="card">
      <h2>${t("resources.tools")}</h2>
      ${!server.tools.length && html`<p class="dim">${t("mcp.no_tools")}</p>`}
      <ul class="plain-list">
        ${server.tools.map((/** @type {any} */ tool) => html`<li key=${tool.name} class="line"><a href=${address("tools", tool.name)}><code>${tool.name}</code></a> <${ToolState} tool=${tool} /> <${Effect} effect=${tool.effect} /><span class="grow clamp dim" dir="auto">${brief(tool.description)}</span></li>`)}
      </ul>
    </section>
    ${may("installation") ? html`<${ToolEntry} name=${`mcp:${name}`} done=${(/** @type {string | null} */ kept) => (kept === null ? go("/mcp-servers") : again())} />` : html`<p class="dim">${t("resources.entry_right")}</p>`}
  `;
}
