// What runs used over time, by whom; budgets and what is left of them.
import { html, useMemo, useRef } from "../lib/html.js";
import { get } from "../lib/api.js";
import { csv, save } from "../lib/csv.js";
import { duration, money, number, short } from "../lib/format.js";
import { useFresh } from "../lib/fresh.js";
import { t } from "../lib/i18n.js";
import { address, here, setQuery } from "../lib/router.js";
import { may } from "../lib/session.js";
import { GROUPINGS, PERIODS, along, failureShare, isoDate, periodOf, timesOf, tokensOf } from "../lib/usage.js";
import { Budgets } from "../components/budgets.js";
import { Chart } from "../components/chart.js";
import { PathTabs } from "../components/path_tabs.js";
import { Empty, Failure, Loading } from "../components/states.js";
import { Table } from "../components/table.js";
import { Ago } from "../components/time.js";

const percent = (/** @type {number} */ share) => `${number(Math.round(share * 1000) / 10)} %`;

/** @param {{tab?: string}} props */
export function Page({ tab = "" }) {
  const tabs = [{ name: "", label: t("usage.over_time") }, ...(may("budgets:read") ? [{ name: "budgets", label: t("usage.budgets") }] : [])];
  return html`
    <header class="head"><h1>${t("page.usage")}</h1>${tab === "" && html`<${Filters} />`}</header>
    <${PathTabs} base="/usage" tabs=${tabs} current=${tab} label=${t("page.usage")} />
    ${tab === "" ? html`<${OverTime} />` : tab === "budgets" ? html`<${Budgets} />` : html`<${Failure} title=${t("shell.no_page")} />`}
  `;
}

/** What is asked for, from the address. */
function asked() {
  const { query } = here.value;
  const by = GROUPINGS.includes(query.get("by") ?? "") ? /** @type {string} */ (query.get("by")) : "agent";
  return { by, agent: query.get("agent") ?? "", period: periodOf(query, Date.now() / 1000) };
}

function Filters() {
  const { by, agent, period } = asked();
  const change = (/** @type {string} */ name) => (/** @type {any} */ event) => setQuery({ [name]: event.target.value.trim() });
  const choose = (/** @type {any} */ event) => {
    const own = event.target.value === "own";
    setQuery({ period: own ? null : event.target.value, from: own ? isoDate(period.since) : null, until: own ? isoDate(period.until) : null });
  };
  return html`
    <form class="filters many" role="search" onSubmit=${(/** @type {Event} */ event) => event.preventDefault()}>
      <label class="field"><span>${t("usage.period")}</span>
        <select value=${period.name} onChange=${choose}>
          ${[...PERIODS.map(([name]) => name), "own"].map((name) => html`<option key=${name} value=${name} selected=${name === period.name}>${t(`usage_period.${name}`)}</option>`)}
        </select>
      </label>
      ${period.name === "own" && html`
        <label class="field"><span>${t("usage.from")}</span><input type="date" required value=${here.value.query.get("from")} onChange=${change("from")} /></label>
        <label class="field"><span>${t("usage.until")}</span><input type="date" required value=${here.value.query.get("until")} onChange=${change("until")} /></label>
      `}
      <label class="field"><span>${t("usage.by")}</span>
        <select value=${by} onChange=${change("by")}>
          ${GROUPINGS.filter((name) => name !== "workspace" || may("installation")).map((name) => html`<option key=${name} value=${name} selected=${name === by}>${t(`usage_by.${name}`)}</option>`)}
        </select>
      </label>
      <label class="field"><span>${t("runs.agent")}</span>
        <input type="search" value=${agent} placeholder=${t("runs.any")} onChange=${change("agent")} />
      </label>
    </form>
  `;
}

function OverTime() {
  const { by, agent, period } = asked();
  const key = here.value.query.toString();
  const fresh = useFresh((signal) => {
    const now = asked(); // the period goes on with the time
    return get("/v1/usage/series", { by: now.by, agent: now.agent, since: now.period.since, until: now.period.until }, signal);
  }, [key]);
  const last = useRef(/** @type {any} */ (null)); // stays until the next one is there, so that nothing jumps
  if (fresh.data) last.current = fresh.data;
  const report = last.current;
  if (fresh.error) return html`<${Failure} error=${fresh.error} retry=${fresh.reload} />`;
  if (!report) return html`<${Loading} />`;
  if (!report.total.runs && !report.total.calls) return html`
    <${Empty} title=${t(agent || period.name !== "year" ? "usage.nothing" : "runs.none")} text=${t("usage.nothing_text")}>
      ${period.name !== "year" && html`<button onClick=${() => setQuery({ period: "year", from: null, until: null, agent: null })}>${t("usage.look_at_year")}</button>`}
    </${Empty}>
  `;
  return html`
    <${Totals} total=${report.total} by=${report.by} />
    ${!report.complete && html`<p class="banner" role="status">${t("usage.incomplete", { date: isoDate(report.counted_since) })}</p>`}
    <${Charts} report=${report} />
    <${Groups} report=${report} by=${by} />
    <p class="dim foot">
      ${fresh.offline ? html`<span class="offline" role="status">${t("state.reconnecting")}</span>` : html`${t("usage.read")} <${Ago} at=${fresh.at} />`}
      ${" · "}${t("usage.utc")}
    </p>
  `;
}

/** @param {{total: any, by: string}} props */
function Totals({ total, by }) {
  const tokens = tokensOf(total), share = failureShare(total);
  const facts = /** @type {[string, string, string][]} */ ([
    ["usage.runs", number(total.runs), ""],
    ...(by === "model" ? [["usage.calls", number(total.calls), ""]] : []),
    ["usage.tokens", tokens === null ? "–" : short(tokens), tokens === null ? "" : t("run.tokens_in_out", { in: short(total.input_tokens ?? 0), out: short(total.output_tokens ?? 0) })],
    ["usage.cost", total.cost === null ? "–" : money(total.cost), ""],
    ["usage.failed", number(total.failed), share === null ? "" : percent(share)],
    ["usage.p50", total.p50 === null ? "–" : duration(total.p50), ""],
    ["usage.p95", total.p95 === null ? "–" : duration(total.p95), ""],
  ]);
  return html`<dl class="tiles">
    ${facts.map(([key, value, more]) => html`<div key=${key}><dt>${t(key)}</dt><dd>${value}</dd>${more && html`<dd class="dim more">${more}</dd>`}</div>`)}
  </dl>`;
}

/** How a group is called. @param {any} group @param {string} by */
function nameOf(group, by) {
  if (group.foot) return t("usage.total");
  if (group.name === null) return t("usage.others");
  return group.title || group.name || t(by === "person" ? "usage.nobody" : "usage.unnamed");
}

const sum = (/** @type {(number | null)[]} */ values) => values.reduce((/** @type {number | null} */ all, value) => (value === null ? all : (all ?? 0) + value), null);

/** @param {{report: any}} props */
function Charts({ report }) {
  const drawn = useMemo(() => {
    const times = timesOf(report), groups = report.groups;
    const stacked = (/** @type {(figures: any) => number | null} */ value) =>
      groups.map((/** @type {any} */ group) => ({ name: nameOf(group, report.by), values: along(group.points, times, value, 0) }));
    const counted = report.by === "model" ? "calls" : "runs";
    return { times, charts: [
      { key: counted, series: stacked((figures) => figures[counted]), format: short },
      { key: "tokens", series: stacked(tokensOf), format: short },
      { key: "cost", series: stacked((figures) => figures.cost), format: money },
      { key: "failed", series: stacked((figures) => figures.failed), format: short },
    ], latency: ["p50", "p95"].map((name) => ({ name: t(`usage.${name}`), values: along(report.points, times, (figures) => figures[name], null) })) };
  }, [report]);
  const total = (/** @type {string} */ name) => (/** @type {any[]} */ values) => (values === drawn.latency[0].values ? report.total.p50 : name && report.total.p95);
  return html`<div class="charts">
    ${drawn.charts.map((chart) => html`<${Chart} key=${chart.key} label=${t(`usage.${chart.key}`)} times=${drawn.times} series=${chart.series} format=${chart.format} step=${report.step} stacked total=${sum} />`)}
    <${Chart} key="latency" label=${t(report.by === "model" ? "usage.latency_calls" : "usage.latency")} times=${drawn.times} series=${drawn.latency} format=${duration} step=${report.step} total=${total("p95")} />
  </div>`;
}

/** Where the runs of a group are, or null. @param {any} group @param {string} by */
function linkOf(group, by) {
  if (!group.name) return null;
  if (by === "agent") return `/runs?${new URLSearchParams({ agent: group.name })}`;
  if (by === "person" && may("audit:read")) return `/audit?${new URLSearchParams({ actor: group.name })}`;
  return by === "model" ? address("models") : null;
}

/** @param {{report: any, by: string}} props */
function Groups({ report, by }) {
  const figures = (/** @type {string} */ key, /** @type {(figures: any) => number | null} */ value, /** @type {(value: number) => string} */ format) => ({
    key, label: t(`usage.${key}`), figures: true, value: (/** @type {any} */ row) => value(row.total),
    cell: (/** @type {any} */ row) => { const found = value(row.total); return found === null || found === undefined ? "–" : format(found); },
  });
  const columns = [
    { key: "name", label: t(`usage_by.${report.by}`), wide: true, value: (/** @type {any} */ row) => nameOf(row, report.by), cell: (/** @type {any} */ row) => {
      const link = linkOf(row, report.by), name = html`<bdi title=${row.name}>${nameOf(row, report.by)}</bdi>`;
      return link ? html`<a href=${link}>${name}</a>` : name;
    } },
    figures("runs", (one) => one.runs, number),
    ...(report.by === "model" ? [figures("calls", (one) => one.calls, number)] : []),
    figures("failed", (one) => one.failed, number),
    figures("input", (one) => one.input_tokens, number),
    figures("output", (one) => one.output_tokens, number),
    figures("cost", (one) => one.cost, money),
    figures("p50", (one) => one.p50, duration),
    figures("p95", (one) => one.p95, duration),
  ];
  return html`
    <div class="section-head"><h2>${t("usage.in_numbers")}</h2><button onClick=${() => download(report)}>${t("usage.export")}</button></div>
    <${Table} label=${t("usage.in_numbers")} columns=${columns} rows=${report.groups} keyOf=${(/** @type {any} */ row) => (row.name === null ? "others" : `=${row.name}`)}
      foot=${report.groups.length > 1 && { name: null, total: report.total, foot: true }} />
  `;
}

/** Save each step of each group as a line. @param {any} report */
function download(report) {
  const columns = ["runs", "calls", "completed", "failed", "input_tokens", "output_tokens", "total_tokens", "cached_tokens", "cost", "p50", "p95"];
  const rows = report.groups.flatMap((/** @type {any} */ group) => group.points.map((/** @type {any} */ point) => [
    new Date(point.at * 1000).toISOString(), report.step, group.name === null ? t("usage.others") : group.name, group.title, ...columns.map((name) => point[name]),
  ]));
  save(`hostler-usage-${isoDate(report.since)}-${isoDate(report.until)}.csv`, csv(["from", "seconds", report.by, "title", ...columns], rows));
}
