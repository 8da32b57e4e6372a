// The tools that agents can use, by the server or plugin that offers them; and one of them.
import { html, useMemo, useState } from "../lib/html.js";
import { get, path } from "../lib/api.js";
import { brief } from "../lib/brief.js";
import { t } from "../lib/i18n.js";
import { usePolled } from "../lib/polled.js";
import { address, here, setQuery } from "../lib/router.js";
import { may } from "../lib/session.js";
import { Value } from "./json.js";
import { PolledStates } from "./polled_states.js";
import { Empty } from "./states.js";
import { Table } from "./table.js";
import { Effect, ToolState } from "./tool_state.js";
import { Text } from "./text.js";
import { ToolTest } from "./tool_test.js";
import { ToolWaiting } from "./tool_waiting.js";
import { lazy } from "./lazy.js";

/** That are shown at once: a host may have thousands of tools. */
const ROWS = 250;

const ToolSources = lazy(() => import("./tool_sources.js").then((module) => module.ToolSources));
const ToolSource = lazy(() => import("./tool_sources.js").then((module) => module.ToolSource));

/** @param {{name?: string}} props */
export function Section({ name }) {
  const { query } = here.value, entry = query.get("source");
  if (name !== undefined) return html`<${Tool} key=${name} name=${name} />`;
  return may("installation") && (entry !== null || query.has("new")) ? html`<${ToolSource} key=${entry} name=${entry} />` : html`<${List} />`;
}

/** Where a tool comes from, as a link. @param {{owner: string}} props */
export function Owner({ owner }) {
  if (owner.startsWith("mcp:")) return html`<a href=${address("mcp-servers", owner.slice(4))}><bdi>${owner}</bdi></a>`;
  if (owner === "skills") return html`<a href="/skills">${owner}</a>`;
  if (owner.startsWith("openapi:") && may("installation")) return html`<a href=${`/tools?${new URLSearchParams({ source: owner })}`}><bdi>${owner}</bdi></a>`;
  return owner.includes("/") ? html`<a href=${address("plugins", owner)}><bdi>${owner}</bdi></a>` : html`<bdi>${owner}</bdi>`;
}

function List() {
  const polled = usePolled((signal) => get("/v1/tools", {}, signal).then((page) => page.items), []);
  const { query } = here.value, text = query.get("find") ?? "", owner = query.get("owner") ?? "", state = query.get("state") ?? "";
  const tools = polled.value;
  const [most, setMost] = useState(ROWS);
  const shown = useMemo(() => {
    const low = text.toLowerCase();
    return (tools ?? []).filter((/** @type {any} */ one) =>
      (!owner || one.owner === owner) && (!state || one.state === state) && (!low || `${one.name}\n${one.description}`.toLowerCase().includes(low)));
  }, [tools, text, owner, state]);
  const owners = [...new Set((tools ?? []).map((/** @type {any} */ one) => one.owner))].sort();
  const waiting = (tools ?? []).filter((/** @type {any} */ one) => one.state === "waiting").length;
  return html`
    <div class="section-head"><p class="dim grow">${t("tools.help")}</p>${may("installation") && html`<a class="button" href="/tools?new=">${t("source.new.tools")}</a>`}</div>
    ${tools && tools.length > 0 && html`
      <form class="filters start" role="search" onSubmit=${(/** @type {Event} */ event) => event.preventDefault()}>
        <label class="field"><span>${t("tools.find")}</span><input type="search" value=${text} onInput=${(/** @type {any} */ event) => setQuery({ find: event.target.value })} /></label>
        <label class="field"><span>${t("tools.owner")}</span>
          <select onChange=${(/** @type {any} */ event) => setQuery({ owner: event.target.value })}>
            <option value="">${t("runs.any")}</option>
            ${owners.map((one) => html`<option key=${one} value=${one} selected=${one === owner}>${one}</option>`)}
          </select>
        </label>
        <label class="field"><span>${t("tools.state")}</span>
          <select onChange=${(/** @type {any} */ event) => setQuery({ state: event.target.value })}>
            <option value="">${t("runs.any")}</option>
            ${["ok", "down", "waiting", "refused"].map((one) => html`<option key=${one} value=${one} selected=${one === state}>${t(`tool_state.${one}`)}</option>`)}
          </select>
        </label>
        ${waiting > 0 && state !== "waiting" && html`<button class="chip" onClick=${() => setQuery({ state: "waiting" })}>${t("tools.waiting", { count: waiting })}</button>`}
      </form>`}
    <${PolledStates} of=${polled} />
    ${tools?.length === 0 && html`<${Empty} title=${t("tools.none")} text=${t("tools.none_text")}>
      <pre class="commands">hostler tools add fetch:web\nhostler tools add mcp:files 'command=["npx", "-y", "some-file-server"]'</pre>
    <//>`}
    ${tools && tools.length > 0 && shown.length === 0 && html`<${Empty} title=${t("tools.no_match")}><button onClick=${() => setQuery({ find: "", owner: "", state: "" })}>${t("tools.clear")}</button><//>`}
    ${shown.length > 0 && html`<${Table} label=${t("resources.tools")} rows=${shown.slice(0, most)} keyOf=${(/** @type {any} */ one) => `${one.name} ${one.owner}`} columns=${columns()} />`}
    ${shown.length > most && html`<p><button class="wide" onClick=${() => setMost(most + ROWS)}>${t("tools.more", { count: shown.length - most })}</button></p>`}
    ${may("installation") && html`<${ToolSources} />`}
  `;
}

/** @returns {import("./table.js").Column[]} */
const columns = () => [
  { key: "name", label: t("tools.tool"), wide: true, cell: (one) => html`<span><a href=${address("tools", one.name)}><code>${one.name}</code></a><br /><span class=${`clamp ${one.problem ? "wrong" : "dim"}`} dir="auto">${brief(one.problem ?? one.description)}</span></span>` },
  { key: "state", label: t("tools.state"), cell: (one) => html`<${ToolState} tool=${one} />` },
  { key: "effect", label: t("tools.effect"), cell: (one) => html`<${Effect} effect=${one.effect} />` },
  { key: "approval", label: t("tools.approval"), cell: (one) => t(`approval.${one.approval}`) },
  { key: "owner", label: t("tools.owner"), cell: (one) => html`<${Owner} owner=${one.owner} />` },
];

/** @param {{name: string}} props */
function Tool({ name }) {
  const polled = usePolled((signal) => get(path("tools", name), {}, signal), [name]);
  const tool = polled.value;
  return html`
    <h2 class="thing"><a class="back" href="/tools" aria-label=${t("tools.back")}>←</a> <code>${name}</code> ${tool && html`<${ToolState} tool=${tool} />`}</h2>
    <${PolledStates} of=${polled} quiet=${true} />
    ${tool && html`
      ${tool.problem && !tool.waiting && html`<div class="failure in-place"><p dir="auto">${tool.problem}</p></div>`}
      ${tool.waiting && html`<${ToolWaiting} tool=${tool} again=${polled.again} />`}
      <section class="card">
        <${Text} text=${tool.description} />
        <dl class="facts">
          <dt>${t("tools.owner")}</dt><dd><${Owner} owner=${tool.owner} /></dd>
          <dt>${t("tools.effect")}</dt><dd><${Effect} effect=${tool.effect} /> <span class="dim">${t(`effect_help.${tool.effect}`)}</span></dd>
          <dt>${t("tools.approval")}</dt><dd>${t(`approval.${tool.approval}`)} <span class="dim">${t(`approval_help.${tool.approval}`)}</span></dd>
          ${tool.client && html`<dt>${t("tools.by")}</dt><dd>${t("tools.client")}</dd>`}
          <dt>${t("tools.digest")}</dt><dd><code>${tool.schema_digest}</code></dd>
        </dl>
      </section>
      ${may("agents:write") && ["ok", "down"].includes(tool.state) && html`<${ToolTest} tool=${tool} />`}
      ${!may("agents:write") && html`<p class="dim">${t("test.right")}</p>`}
      <section class="card"><h2>${t("tools.parameters")}</h2><${Value} value=${tool.parameters} /></section>
      ${tool.output_schema && html`<section class="card"><h2>${t("tools.output")}</h2><${Value} value=${tool.output_schema} /></section>`}
    `}
  `;
}
