// The list of runs, live, with its filters in the address and totals over them.
import { html, useEffect, useLayoutEffect, useMemo, useState } from "../lib/html.js";
import { get } from "../lib/api.js";
import { duration, money, number, short } from "../lib/format.js";
import { t } from "../lib/i18n.js";
import { shownStatus } from "../lib/live_pauses.js";
import { liveRuns } from "../lib/live_runs.js";
import { addAbove, keptList, usePlace } from "../lib/places.js";
import { address, here, setQuery } from "../lib/router.js";
import { withRuns } from "../lib/run_pages.js";
import { may } from "../lib/session.js";
import { conversationPage } from "../lib/thing_address.js";
import { FirstStart } from "../components/first_start.js";
import { LongList } from "../components/long_list.js";
import { RunFilters, filtersOf } from "../components/run_filters.js";
import { waitsInShort } from "../components/run_waits.js";
import { Empty, Failure, Loading } from "../components/states.js";
import { Status, TERMINAL } from "../components/status.js";
import { ThingLink } from "../components/thing_link.js";
import { Ago } from "../components/time.js";

/** @typedef {import("../lib/run_pages.js").Run} Run */

const ROW_PIXELS = 44;

export function Page() {
  const { query } = here.value, key = query.toString();
  const list = useMemo(() => liveRuns(filtersOf(query), keptList()), [key]);
  useEffect(() => list.stop, [list]);
  usePlace(list.shown);
  const state = list.state.value, fresh = list.fresh.value, pages = list.pages.value;
  const count = fresh.length + pages.length.value, again = () => setQuery({ again: String(Date.now()) });
  void pages.drawn.value;
  useLayoutEffect(() => addAbove(list.above() * ROW_PIXELS), [list, state, fresh]);
  return html`
    <header class="head">
      <h1>${t("page.runs")}</h1>
      ${!list.connected.value && html`<span class="offline" role="status">${t("state.reconnecting")}</span>`}
      ${list.stale.value && html`<button class="chip" onClick=${again}>${t("runs.stale")}</button>`}
      <${RunFilters} />
    </header>
    ${state === "loading" && html`<${Loading} />`}
    ${state instanceof Error && html`<${Failure} error=${state} retry=${again} />`}
    ${pages.failure.value && html`<${Failure} error=${pages.failure.value} retry=${again} />`}
    ${state === "ready" && count === 0 && (isFiltered(query) ? html`<${NoMatch} />` : html`<${NoRuns} />`)}
    ${count > 0 && html`
      <${Totals} totals=${withRuns(pages.totals.value, fresh)} />
      <${LongList}
        key=${key} count=${count} height=${ROW_PIXELS} label=${t("page.runs")}
        seen=${(/** @type {number} */ first, /** @type {number} */ last) => pages.want(Math.max(0, first - fresh.length), last - fresh.length)}
        row=${(/** @type {number} */ index) => {
          const run = index < fresh.length ? fresh[index] : pages.at(index - fresh.length);
          return run && html`<${Row} run=${run} />`;
        }}
      />`}
  `;
}

/** @param {URLSearchParams} query */
const isFiltered = (query) => [...query.keys()].some((name) => name !== "again");

/** @param {{totals: import("../lib/run_pages.js").Totals}} props */
function Totals({ totals }) {
  const facts = /** @type {[string, string][]} */ ([
    ["runs.total", number(totals.runs)], ["runs.failures", `${number(totals.failed)}${totals.runs ? ` (${number(Math.round((1000 * totals.failed) / totals.runs) / 10)} %)` : ""}`],
    ["run.tokens", short(totals.tokens)],
  ]);
  if (totals.open) facts.splice(2, 0, ["runs.open", number(totals.open)]);
  if (totals.cost !== null) facts.push(["run.cost", money(totals.cost)]);
  if (totals.timed) facts.push(["runs.mean", duration(totals.seconds / totals.timed)]);
  return html`<dl class="sums" aria-label=${t("runs.totals")} aria-busy=${!totals.over}>
    ${facts.map(([key, value]) => html`<div key=${key}><dt>${t(key)}</dt><dd>${value}${!totals.over && "…"}</dd></div>`)}
  </dl>`;
}

/** @param {{run: Run}} props */
function Row({ run }) {
  const waits = waitsInShort(run);
  return html`<div class="run-row">
    <a class="run" href=${address("runs", run.run_id)}>
      <span><${Status} status=${shownStatus(run)} /></span>
      <span class="name" dir="auto" title=${waits ? t("run.waits_for", { what: waits }) : null}><bdi>${run.agent}</bdi>${waits && html` <span class="waits-for">${t("run.waits_for", { what: waits })}</span>`}</span>
      <span class="dim figures">${figures(run)}</span>
      <span class="dim when"><${Ago} at=${run.created_at} /></span>
    </a>
    ${run.conversation_id && html`<span class="id dim"><${ThingLink} to=${conversationPage(run.conversation_id)}>${run.conversation_id}<//></span>`}
  </div>`;
}

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
    <button onClick=${() => setQuery(Object.fromEntries([...here.value.query.keys()].map((name) => [name, null])))}>${t("runs.clear")}</button>
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
