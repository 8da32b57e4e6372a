// All agents; one of them; a new one.
import { html, useEffect, useMemo } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { liveAgents } from "../lib/live_agents.js";
import { address, here, setQuery } from "../lib/router.js";
import { may } from "../lib/session.js";
import { AgentPage } from "../components/agent_page.js";
import { EventQuestion } from "../components/event_question.js";
import { FirstStart } from "../components/first_start.js";
import { Empty, Failure, Loading } from "../components/states.js";
import { Status } from "../components/status.js";
import { Tabs, tabOf } from "../components/tabs.js";
import { Ago } from "../components/time.js";
import { WindowList } from "../components/window_list.js";

/** @typedef {import("../lib/live_agents.js").Agent} Agent */

const ROW_PIXELS = 56;

/** @param {{name?: string}} props */
export function Page({ name }) {
  const fresh = here.value.query.get("new");
  if (name) return html`<${AgentPage} key=${`agent ${name}`} name=${name} />`;
  if (fresh !== null && may("agents:write")) return html`<${AgentPage} key="new" name="" runner=${fresh} />`;
  return html`<${List} />`;
}

function List() {
  const list = useMemo(liveAgents, []);
  useEffect(() => list.stop, [list]);
  const agents = list.agents.value, state = list.state.value;
  const tab = tabOf(["list", "event"]), text = here.value.query.get("q") ?? "";
  const wanted = text.trim().toLowerCase();
  const shown = wanted ? agents.filter((one) => `${one.name} ${one.spec.runner}`.toLowerCase().includes(wanted)) : agents;
  return html`
    <header class="head">
      <h1>${t("page.agents")}</h1>
      ${!list.connected.value && html`<span class="offline" role="status">${t("state.reconnecting")}</span>`}
      <div class="actions">
        ${tab === "list" && agents.length > 5 && html`<input type="search" class="search" aria-label=${t("agents.search")} placeholder=${t("agents.search")} value=${text} onInput=${(/** @type {any} */ event) => setQuery({ q: event.target.value })} />`}
        ${may("agents:write") && html`<a class="button primary" href="/agents?new=">${t("agents.new")}</a>`}
      </div>
    </header>
    <${Tabs} label=${t("page.agents")} tabs=${[{ name: "list", label: t("agents.tab.list") }, { name: "event", label: t("agents.which") }]} />
    ${tab === "event" ? html`<${EventQuestion} />` : html`
      ${state === "loading" && html`<${Loading} />`}
      ${state instanceof Error && html`<${Failure} error=${state} retry=${list.read} />`}
      ${state === "ready" && !agents.length && html`<${FirstStart} begun=${list.read} />`}
      ${agents.length > 0 && !shown.length && html`<${Empty} title=${t("agents.no_match")}><button onClick=${() => setQuery({ q: null })}>${t("agents.show_all")}</button></${Empty}>`}
      ${shown.length > 0 && html`<${WindowList} items=${shown} height=${ROW_PIXELS} keyOf=${(/** @type {Agent} */ one) => one.name} label=${t("page.agents")}
        row=${(/** @type {Agent} */ one) => html`<${Row} agent=${one} list=${list} />`} />`}
    `}
  `;
}

/** @param {Agent} agent */
export function stateOf(agent) {
  const errors = (agent.problems ?? []).filter((one) => one.severity === "error").length;
  if (!agent.spec.enabled) return { kind: "dim", text: t("agents.state.off") };
  if (errors) return { kind: "bad", text: t("agents.state.broken", { count: errors }) };
  if (agent.problems?.length) return { kind: "waits", text: t("agents.state.warned", { count: agent.problems.length }) };
  return { kind: "good", text: t("agents.state.on") };
}

/** @param {{agent: Agent, list: ReturnType<typeof liveAgents>}} props */
function Row({ agent, list }) {
  useEffect(() => list.look(agent.name), [agent.name]);
  const run = list.lastRuns.value[agent.name], sum = list.sums.value[agent.name], state = stateOf(agent);
  return html`
    <div class="agent">
      <span class="agent-state"><span class="status ${state.kind}">${state.text}</span></span>
      <a class="name" href=${address("agents", agent.name)} dir="auto">${agent.name}</a>
      <span class="id dim" dir="auto">${agent.spec.runner.replace(/^plugin:/, "")}</span>
      <span class="agent-sum dim">${sum ? html`${t("agents.runs_of_week", { count: sum.runs })}${sum.failed > 0 && html` · <span class="bad">${t("agents.failed_of_week", { count: sum.failed })}</span>`}` : ""}</span>
      <span class="agent-last">${run ? html`<a href=${address("runs", run.run_id)} aria-label=${t("agents.last_run", { status: t(`status.${run.status}`) })}><${Status} status=${run.status} /></a> <span class="dim"><${Ago} at=${run.created_at} /></span>` : run === null ? html`<span class="dim">${t("agents.never")}</span>` : ""}</span>
    </div>
  `;
}
