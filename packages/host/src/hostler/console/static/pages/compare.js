// Two runs side by side: their totals, what they were asked and answered, and step by step what differs.
import { html, useEffect, useMemo, useState } from "../lib/html.js";
import { get } from "../lib/api.js";
import { pairs, totalsOf } from "../lib/compare.js";
import { duration, money, number } from "../lib/format.js";
import { t } from "../lib/i18n.js";
import { liveJournal } from "../lib/live_journal.js";
import { address, go, here, setQuery } from "../lib/router.js";
import { textOf } from "../lib/steps.js";
import { Diff } from "../components/diff.js";
import { PairDetails, PairRow } from "../components/pair.js";
import { Failure, Loading } from "../components/states.js";
import { Status } from "../components/status.js";
import { StepList } from "../components/step_list.js";
import { Ago } from "../components/time.js";

/** @typedef {import("../lib/live_journal.js").LiveJournal} LiveJournal @typedef {import("../lib/compare.js").Pair} Pair */

const ROW_PIXELS = 38;

/** @param {{run_id: string, other_id?: string}} props */
export function Page({ run_id, other_id }) {
  return html`
    <header class="head">
      <a class="back" href=${address("runs", run_id)} aria-label=${t("compare.back")}>←</a><h1>${t("page.compare")}</h1>
    </header>
    ${other_id ? html`<${Both} key=${`${run_id} ${other_id}`} left=${run_id} right=${other_id} />` : html`<${Choose} key=${run_id} run_id=${run_id} />`}
  `;
}

/** @param {{left: string, right: string}} props */
function Both({ left, right }) {
  const [one, other] = useMemo(() => [liveJournal(left), liveJournal(right)], [left, right]);
  useEffect(() => () => (one.stop(), other.stop()), [one, other]);
  const failure = one.failure.value ?? other.failure.value;
  if (failure) return html`<${Failure} error=${failure} retry=${() => location.reload()} />`;
  if (!one.run.value || !other.run.value) return html`<${Loading} />`;
  return html`
    <${Totals} left=${one} right=${other} />
    <${Said} left=${one} right=${other} />
    ${one.complete.value && other.complete.value ? html`<${Steps} left=${one} right=${other} />` : html`<${Loading} />`}
  `;
}

/** @param {{left: LiveJournal, right: LiveJournal}} props */
function Totals({ left, right }) {
  const [a, b] = [totalsOf(left.run.value, left.steps.value), totalsOf(right.run.value, right.steps.value)];
  const rows = /** @type {[string, any, any, (value: any) => any][]} */ ([
    ["run.took", a.seconds, b.seconds, (value) => (value === null ? "–" : duration(value))],
    ["compare.input", a.input, b.input, number], ["compare.output", a.output, b.output, number],
    ["run.cost", a.cost, b.cost, money], ["compare.models", a.models, b.models, number], ["compare.tools", a.tools, b.tools, number],
    ["compare.steps", a.steps, b.steps, number],
  ]);
  return html`
    <div class="card compare-totals" tabindex="0" role="region" aria-label=${t("compare.totals")}>
      <table>
        <thead><tr><td></td>${[left, right].map((journal, at) => html`<th key=${at} scope="col">
          <a href=${address("runs", journal.run.value.run_id)}><bdi>${journal.run.value.agent}</bdi> <span class="dim">${t("run.version")} ${journal.run.value.agent_version}</span></a>
          <div><${Status} status=${journal.run.value.status} /></div><div class="dim"><${Ago} at=${journal.run.value.created_at} /></div>
        </th>`)}<th scope="col">${t("compare.difference")}</th></tr></thead>
        <tbody>${rows.map(([key, one, other, format]) => html`<tr key=${key}>
          <th scope="row">${t(key)}</th><td>${format(one)}</td><td>${format(other)}</td><td class=${one === other ? "dim" : ""}>${change(one, other, format)}</td>
        </tr>`)}</tbody>
      </table>
      <button class="quiet" onClick=${() => go(address("runs", right.run.value.run_id, "compare", left.run.value.run_id))}>${t("compare.swap")}</button>
    </div>
  `;
}

/** @param {number | null} one @param {number | null} other @param {(value: number) => string} format */
function change(one, other, format) {
  if (one === null || other === null || one === other) return "=";
  const by = one ? ` (${other > one ? "+" : "−"}${number(Math.round(Math.abs(100 * (other - one)) / one))} %)` : "";
  return `${other > one ? "+" : "−"}${format(Math.abs(other - one))}${by}`;
}

/** @param {{left: LiveJournal, right: LiveJournal}} props */
function Said({ left, right }) {
  const asked = [useAsked(left), useAsked(right)];
  const answers = [left, right].map((journal) => (journal.run.value.output?.messages ?? []).map((/** @type {any} */ one) => textOf(one.content)).join("\n\n"));
  const labels = [t("compare.left"), t("compare.right")];
  return html`
    ${asked[0] !== null && asked[1] !== null && (asked[0] || asked[1]) && html`<section class="card"><h2>${t("run.asked")}</h2>${asked[0] === asked[1] ? html`<pre class="plain value" dir="auto">${asked[0]}</pre>` : html`<${Diff} before=${asked[0]} after=${asked[1]} labels=${labels} />`}</section>`}
    ${(answers[0] || answers[1]) && html`<section class="card"><h2>${t("run.answered")}</h2><${Diff} before=${answers[0]} after=${answers[1]} labels=${labels} /></section>`}
  `;
}

/** @param {LiveJournal} journal */
function useAsked(journal) {
  const step = journal.steps.value.find((one) => one.kind === "context");
  const [text, setText] = useState(/** @type {string | null} */ (null));
  useEffect(() => {
    if (step) journal.entry(step.first).then((entry) => setText(textOf(entry?.data.input?.contents) || entry?.data.input?.text || ""), () => setText(""));
  }, [step?.first]);
  return text;
}

/** @param {{left: LiveJournal, right: LiveJournal}} props */
function Steps({ left, right }) {
  const only = here.value.query.get("only") === "differences";
  const found = useMemo(() => pairs(left.steps.value, right.steps.value), [left.steps.value, right.steps.value]);
  // what the overview cannot decide is decided by whole entries, of what is looked at
  const [decided, setDecided] = useState(/** @type {Map<string, boolean>} */ (new Map()));
  const decide = (/** @type {string} */ key, /** @type {boolean} */ same) => setDecided((before) => (before.has(key) ? before : new Map(before).set(key, same)));
  const [opened, setOpened] = useState(/** @type {Set<string>} */ (new Set()));
  const toggle = (/** @type {string} */ key) => setOpened((before) => {
    const next = new Set(before);
    if (!next.delete(key)) next.add(key);
    return next;
  });
  const differs = (/** @type {Pair} */ pair) => (pair.kind === "unsure" ? decided.get(pair.key) !== true : pair.kind !== "same");
  const shown = only ? found.filter(differs) : found;
  return html`
    <section aria-label=${t("run.timeline")}>
      <div class="filters step-tools">
        <label class="choice"><input type="checkbox" checked=${only} onChange=${(/** @type {any} */ event) => setQuery({ only: event.target.checked ? "differences" : null })} /> ${t("compare.only")}</label>
        <span class="dim" role="status">${t("compare.count", { count: found.filter(differs).length, all: number(found.length) })}</span>
      </div>
      <${StepList}
        items=${shown} height=${ROW_PIXELS} keyOf=${(/** @type {Pair} */ pair) => pair.key} opened=${opened} label=${t("run.timeline")}
        row=${(/** @type {Pair} */ pair, /** @type {number} */ _, /** @type {boolean} */ open) => html`<${PairRow}
          pair=${pair} left=${left} right=${right} open=${open} toggle=${() => toggle(pair.key)} same=${decided.get(pair.key)} decide=${decide} />`}
        inside=${(/** @type {Pair} */ pair) => html`<${PairDetails} pair=${pair} left=${left} right=${right} />`}
      />
    </section>
  `;
}

/** With which run to compare. @param {{run_id: string}} props */
function Choose({ run_id }) {
  const [found, setFound] = useState(/** @type {any[] | Error | null} */ (null));
  useEffect(() => {
    get(`/v1/runs/${encodeURIComponent(run_id)}`)
      .then((run) => get("/v1/runs", { agent: run.agent, limit: 30 }))
      .then((page) => setFound(page.items.filter((/** @type {any} */ one) => one.run_id !== run_id)), setFound);
  }, [run_id]);
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    const value = /** @type {HTMLInputElement} */ (document.getElementById("other")).value.trim().split("/").at(-1);
    if (value) go(address("runs", run_id, "compare", value));
  };
  return html`
    <form class="card" onSubmit=${submit}>
      <label class="stacked" for="other"><span>${t("compare.with")}</span></label>
      <div class="line-of"><input id="other" class="grow" spellcheck=${false} placeholder=${t("compare.id")} /><button class="primary">${t("run.compare")}</button></div>
    </form>
    ${found === null && html`<${Loading} />`}
    ${found instanceof Error && html`<${Failure} error=${found} />`}
    ${Array.isArray(found) && html`<section class="card"><h2>${t("compare.others")}</h2>
      ${found.length === 0 && html`<p class="dim">${t("compare.none")}</p>`}
      <ul class="plain-list">${found.map((run) => html`<li class="line" key=${run.run_id}>
        <${Status} status=${run.status} /><a class="grow" href=${address("runs", run_id, "compare", run.run_id)}><code>${run.run_id}</code></a>
        <span class="dim">${run.forked_from === run_id ? t("run.forked_from") : ""}</span><span class="dim"><${Ago} at=${run.created_at} /></span>
      </li>`)}</ul></section>`}
  `;
}
