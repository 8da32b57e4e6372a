// The list of runs, live, with its filters in the address.
import { html, useEffect, useMemo, useRef, useState } from "../lib/html.js";
import { get } from "../lib/api.js";
import { duration, money, short } from "../lib/format.js";
import { t } from "../lib/i18n.js";
import { liveRuns } from "../lib/live_runs.js";
import { address, here, setQuery } from "../lib/router.js";
import { may } from "../lib/session.js";
import { FirstStart } from "../components/first_start.js";
import { Empty, Failure, Loading } from "../components/states.js";
import { STATUSES, Status, TERMINAL } from "../components/status.js";
import { Ago } from "../components/time.js";
import { WindowList } from "../components/window_list.js";

/** @typedef {import("../lib/live_runs.js").Run} Run */

const ROW_PIXELS = 44;
const PERIODS = /** @type {[string, number][]} */ ([["hour", 3600], ["day", 86400], ["week", 604800]]);

export function Page() {
  const { query } = here.value;
  const filters = {
    status: query.getAll("status"),
    agent: query.get("agent") ?? "",
    conversation_id: query.get("conversation") ?? "",
    since: sinceOf(query.get("period")),
  };
  const key = query.toString();
  const list = useMemo(() => liveRuns(filters), [key]);
  useEffect(() => list.stop, [list]);
  const runs = list.runs.value, state = list.state.value;
  return html`
    <header class="head">
      <h1>${t("page.runs")}</h1>
      ${!list.connected.value && html`<span class="offline" role="status">${t("state.reconnecting")}</span>`}
      <${Filters} />
    </header>
    ${state === "loading" && html`<${Loading} />`}
    ${state instanceof Error && html`<${Failure} error=${state} retry=${() => setQuery({ again: String(Date.now()) })} />`}
    ${state === "ready" && runs.length === 0 && (key ? html`<${NoMatch} />` : html`<${NoRuns} />`)}
    ${runs.length > 0 &&
    html`<${WindowList}
      items=${runs} height=${ROW_PIXELS} keyOf=${(/** @type {Run} */ run) => run.run_id} more=${list.more}
      label=${t("page.runs")} row=${(/** @type {Run} */ run) => html`<${Row} run=${run} />`}
    />`}
  `;
}

/** The moment a period began, rounded to minutes so that the list is not read anew all the time. @param {string | null} name */
function sinceOf(name) {
  const found = PERIODS.find(([known]) => known === name);
  return found ? String(Math.floor((Date.now() / 1000 - found[1]) / 60) * 60) : "";
}

function Filters() {
  const { query } = here.value;
  const agent = useRef(/** @type {HTMLInputElement | null} */ (null));
  const conversation = query.get("conversation");
  return html`
    <form class="filters" role="search" onSubmit=${(/** @type {Event} */ event) => event.preventDefault()}>
      <label class="field"><span>${t("runs.status")}</span>
        <select onChange=${(/** @type {any} */ event) => setQuery({ status: event.target.value })}>
          <option value="">${t("runs.any")}</option>
          ${STATUSES.map((name) => html`<option key=${name} value=${name} selected=${query.get("status") === name}>${t(`status.${name}`)}</option>`)}
        </select>
      </label>
      <label class="field"><span>${t("runs.period")}</span>
        <select onChange=${(/** @type {any} */ event) => setQuery({ period: event.target.value })}>
          <option value="">${t("runs.always")}</option>
          ${PERIODS.map(([name]) => html`<option key=${name} value=${name} selected=${query.get("period") === name}>${t(`period.${name}`)}</option>`)}
        </select>
      </label>
      <label class="field"><span>${t("runs.agent")}</span>
        <input ref=${agent} type="search" value=${query.get("agent") ?? ""} placeholder=${t("runs.any")}
          onChange=${(/** @type {any} */ event) => setQuery({ agent: event.target.value.trim() })} />
      </label>
      ${conversation &&
      html`<button type="button" class="chip" onClick=${() => setQuery({ conversation: null })} title=${t("runs.drop_filter")}>
        ${t("runs.conversation")} <bdi>${conversation}</bdi> ×
      </button>`}
    </form>
  `;
}

/** @param {{run: Run}} props */
const Row = ({ run }) => html`
  <a class="run" href=${address("runs", run.run_id)}>
    <span><${Status} status=${run.status} /></span>
    <span class="name" dir="auto">${run.agent}</span>
    <span class="id dim">${run.conversation_id ?? ""}</span>
    <span class="dim figures">${figures(run)}</span>
    <span class="dim when"><${Ago} at=${run.created_at} /></span>
  </a>
`;

/** @param {Run} run */
function figures(run) {
  const parts = [];
  const tokens = (run.usage?.input_tokens ?? 0) + (run.usage?.output_tokens ?? 0);
  if (tokens) parts.push(t("runs.tokens", { tokens: short(tokens) }));
  if (run.cost) parts.push(money(run.cost));
  if (run.started_at && TERMINAL.has(run.status)) parts.push(duration((run.finished_at ?? run.started_at) - run.started_at));
  return parts.join(" · ");
}

const NoMatch = () => html`
  <${Empty} title=${t("runs.no_match")}>
    <button onClick=${() => setQuery({ status: null, agent: null, period: null, conversation: null })}>${t("runs.clear")}</button>
  </${Empty}>
`;

/** Where nothing has run yet: a way to a first agent, if there is none. */
function NoRuns() {
  const [agents, setAgents] = useState(/** @type {boolean | null} */ (null));
  useEffect(() => {
    if (!may("agents:read")) return setAgents(true);
    get("/v1/agents", { limit: 1 }).then((page) => setAgents(page.items.length > 0), () => setAgents(true));
  }, []);
  if (agents === null) return html`<${Loading} />`;
  if (!agents) return html`<${FirstStart} />`;
  return html`<${Empty} title=${t("runs.none")} text=${t("runs.none_text")}><a class="button primary" href="/chat">${t("page.chat")}</a></${Empty}>`;
}
