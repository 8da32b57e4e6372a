// One run: what was asked and answered, and everything that happened, in order.
import { html, useEffect, useMemo, useState } from "../lib/html.js";
import { path, post } from "../lib/api.js";
import { clock, duration, money, moment, number, short } from "../lib/format.js";
import { t } from "../lib/i18n.js";
import { liveJournal } from "../lib/live_journal.js";
import { Markdown } from "../lib/markdown.js";
import { address, go } from "../lib/router.js";
import { may } from "../lib/session.js";
import { textOf } from "../lib/steps.js";
import { Value } from "../components/json.js";
import { attempt } from "../components/notice.js";
import { Failure, Loading } from "../components/states.js";
import { Status, TERMINAL } from "../components/status.js";
import { Ago } from "../components/time.js";

/** @typedef {import("../lib/steps.js").Step} Step */

/** @param {{run_id: string}} props */
export function Page({ run_id }) {
  const journal = useMemo(() => liveJournal(run_id), [run_id]);
  useEffect(() => journal.stop, [journal]);
  const run = journal.run.value, steps = journal.steps.value;
  if (journal.failure.value) return html`<${Failure} error=${journal.failure.value} retry=${() => location.reload()} />`;
  if (run === null) return html`<${Loading} />`;
  return html`
    <header class="head">
      <h1><a class="back" href="/runs" aria-label=${t("run.back")}>←</a> <bdi>${run.agent}</bdi></h1>
      <${Status} status=${run.status} />
      <${Actions} run=${run} />
    </header>
    <${Facts} run=${run} />
    <${Conversation} steps=${steps} run=${run} />
    <${Timeline} steps=${steps} run=${run} />
  `;
}

/** @param {{run: any}} props */
function Actions({ run }) {
  const over = TERMINAL.has(run.status), write = may("runs:write");
  const cancel = () => attempt(() => post(path("runs", run.run_id, "cancel"), {}), t("run.cancelling"));
  const again = async () => {
    const made = await attempt(() => post(path("runs", run.run_id, "retry"), {}));
    if (made) go(address("runs", made.run_id));
  };
  return html`
    <div class="actions">
      ${write && !over && html`<button class="danger" disabled=${run.cancel_requested_at !== null} onClick=${cancel}>${t("run.cancel")}</button>`}
      ${write && over && html`<button onClick=${again}>${t("run.retry")}</button>`}
      <a class="button" href=${path("runs", run.run_id, "export")} download=${`${run.run_id}.json`}>${t("run.download")}</a>
    </div>
  `;
}

/** @param {{run: any}} props */
function Facts({ run }) {
  const tokens = (run.usage?.input_tokens ?? 0) + (run.usage?.output_tokens ?? 0);
  const facts = /** @type {[string, any][]} */ ([
    ["run.id", html`<code>${run.run_id}</code>`],
    ["run.began", html`<${Ago} at=${run.created_at} /> <span class="dim">(${moment(run.created_at)})</span>`],
  ]);
  if (run.started_at) facts.push(["run.took", duration((run.finished_at ?? Date.now() / 1000) - run.started_at)]);
  if (tokens) facts.push(["run.tokens", t("run.tokens_in_out", { in: number(run.usage.input_tokens ?? 0), out: number(run.usage.output_tokens ?? 0) })]);
  if (run.cost) facts.push(["run.cost", money(run.cost)]);
  if (run.conversation_id) facts.push(["runs.conversation", html`<a href=${`/runs?${new URLSearchParams({ conversation: run.conversation_id })}`}><bdi>${run.conversation_id}</bdi></a>`]);
  facts.push(["run.version", t("run.version_of", { version: run.agent_version, runner: run.runner_id })]);
  if (run.attempt > 1) facts.push(["run.attempts", number(run.attempt)]);
  if (run.status_code) facts.push(["run.reason", html`<code>${run.status_code}</code>`]);
  if (run.cancel_reason) facts.push(["run.cancelled_by", `${run.cancel_requested_by}: ${run.cancel_reason}`]);
  for (const [key, id] of [["run.retry_of", run.retry_of], ["run.forked_from", run.forked_from], ["run.parent", run.parent_run_id]]) {
    if (id) facts.push([key, html`<a href=${address("runs", id)}><code>${id}</code></a>`]);
  }
  return html`<dl class="facts card">${facts.map(([key, value]) => html`<dt>${t(key)}</dt><dd dir="auto">${value}</dd>`)}</dl>`;
}

/** What was asked, and what was answered. @param {{steps: Step[], run: any}} props */
function Conversation({ steps, run }) {
  const context = steps.find((step) => step.kind === "context")?.parts[0]?.[1];
  const asked = textOf(context?.input?.contents) || context?.input?.text || "";
  const answers = steps.filter((step) => step.kind === "message" && step.attempt === run.attempt);
  return html`
    ${asked && html`<section class="card said"><h2>${t("run.asked")}</h2><${Markdown} text=${asked} /></section>`}
    ${answers.map((step) => html`<section class="card said" key=${step.key}><h2>${t("run.answered")}</h2><${Markdown} text=${step.text} /></section>`)}
  `;
}

/** @param {{steps: Step[], run: any}} props */
function Timeline({ steps, run }) {
  const begin = steps[0]?.from ?? run.created_at;
  const end = Math.max(begin + 0.001, ...steps.slice(-50).map((step) => step.to), run.finished_at ?? 0);
  const attempts = new Set(steps.map((step) => step.attempt)).size > 1;
  return html`
    <section>
      <h2 class="above">${t("run.timeline")}</h2>
      <ol class="timeline" aria-label=${t("run.timeline")}>
        ${steps.map((step, index) => html`
          ${attempts && step.attempt !== steps[index - 1]?.attempt && html`<li class="divide" key=${`a${step.attempt}`}>${t("run.attempt", { number: step.attempt })}</li>`}
          <${StepRow} key=${step.key} step=${step} begin=${begin} end=${end} run=${run} />
        `)}
      </ol>
    </section>
  `;
}

/** @param {{step: Step, begin: number, end: number, run: any}} props */
function StepRow({ step, begin, end, run }) {
  const [open, setOpen] = useState(false);
  const seconds = step.to - step.from;
  const left = (100 * (step.from - begin)) / (end - begin), width = Math.max(0.4, (100 * seconds) / (end - begin));
  const tokens = (step.usage?.input_tokens ?? 0) + (step.usage?.output_tokens ?? 0);
  const title = step.kind === "status" ? t(`status.${step.title}`) : step.kind === "message" ? t("run.message") : step.kind === "context" ? t("run.context") : step.title;
  return html`
    <li class="step of-${step.kind} ${step.bad ? "bad" : ""}">
      <button class="row" aria-expanded=${open} onClick=${() => setOpen(!open)}>
        <span class="kind">${t(`step.${step.kind}`)}</span>
        <span class="what" dir="auto"><strong>${title}</strong> ${step.note || step.text.slice(0, 160)}</span>
        <span class="dim figures">
          ${[tokens ? t("runs.tokens", { tokens: short(tokens) }) : "", step.cost ? money(step.cost) : "", seconds >= 0.001 ? duration(seconds) : ""].filter(Boolean).join(" · ")}
        </span>
        <span class="bar" aria-hidden="true"><span style=${{ marginLeft: `${left}%`, width: `${Math.min(width, 100 - left)}%` }} /></span>
      </button>
      ${open && html`<${Details} step=${step} run=${run} />`}
    </li>
  `;
}

/** @param {{step: Step, run: any}} props */
function Details({ step, run }) {
  const fork = async () => {
    const made = await attempt(() => post(path("runs", run.run_id, "fork"), { at: step.position }));
    if (made) go(address("runs", made.run_id));
  };
  return html`
    <div class="details">
      <p class="dim">${clock(step.from)} · ${t("run.position", { position: step.position })}</p>
      ${step.text && html`<${Value} value=${step.text} />`}
      ${step.parts.map(([key, value]) => html`<h3 key=${key}>${t(`part.${key}`)}</h3><${Value} value=${value} />`)}
      ${TERMINAL.has(run.status) && may("runs:write") && html`<button onClick=${fork}>${t("run.fork")}</button>`}
    </div>
  `;
}
