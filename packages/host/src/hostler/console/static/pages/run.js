// One run: what was asked and answered, and everything that happened, in order.
import { html, useEffect, useMemo, useState } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { liveJournal } from "../lib/live_journal.js";
import { shownStatus } from "../lib/live_pauses.js";
import { Markdown } from "../lib/markdown.js";
import { here, setQuery } from "../lib/router.js";
import { textOf } from "../lib/steps.js";
import { Attempts } from "../components/attempts.js";
import { lazy } from "../components/lazy.js";
import { Actions, Facts } from "../components/run_head.js";
import { RunPauses } from "../components/run_pauses.js";
import { RunTimeline } from "../components/run_timeline.js";
import { Failure, Loading } from "../components/states.js";
import { Status, TERMINAL } from "../components/status.js";
import { Tabs, tabOf } from "../components/tabs.js";

const ForkPanel = lazy(() => import("../components/fork_panel.js").then((module) => module.ForkPanel));
const ReplayPanel = lazy(() => import("../components/replay_panel.js").then((module) => module.ReplayPanel));
const RawJournal = lazy(() => import("../components/raw_journal.js").then((module) => module.RawJournal));

/** @typedef {import("../lib/live_journal.js").LiveJournal} LiveJournal */

/** @param {{run_id: string}} props */
export function Page({ run_id }) {
  const journal = useMemo(() => liveJournal(run_id), [run_id]);
  useEffect(() => journal.stop, [journal]);
  // the address opens the panel; only the button replays
  const [wanted, want] = useState("");
  const run = journal.run.value;
  if (journal.failure.value && !run) return html`<${Failure} error=${journal.failure.value} retry=${() => location.reload()} />`;
  if (run === null) return html`<${Loading} />`;
  const tab = tabOf(["steps", "journal"]), { query } = here.value;
  return html`
    <header class="head">
      <h1><a class="back" href="/runs" aria-label=${t("run.back")}>←</a> <bdi>${run.agent}</bdi></h1>
      <${Status} status=${shownStatus(run)} />
      ${!journal.connected.value && html`<span class="offline" role="status">${t("state.reconnecting")}</span>`}
      <${Actions} run=${run} replay=${() => (want(run_id), setQuery({ replay: "1", fork: null }))} />
    </header>
    ${query.has("fork") && html`<${ForkPanel} key=${`${run_id} ${query.get("fork")}`} journal=${journal} position=${positionOf(query.get("fork"))} />`}
    ${query.has("replay") && html`<${ReplayPanel} key=${run_id} run=${run} wanted=${wanted === run_id} begun=${() => want("")} />`}
    <${RunPauses} run_id=${run_id} />
    <${Facts} run=${run} />
    <${Conversation} journal=${journal} />
    <${Attempts} steps=${journal.steps.value} />
    <${Tabs} label=${t("run.views")} tabs=${[{ name: "steps", label: t("run.timeline") }, { name: "journal", label: t("run.journal") }]} />
    ${journal.failure.value && html`<${Failure} error=${journal.failure.value} retry=${() => location.reload()} />`}
    ${tab === "steps" ? html`<${RunTimeline} journal=${journal} />` : html`<${RawJournal} journal=${journal} />`}
  `;
}

/** @param {string | null} text */
const positionOf = (text) => (text && /^\d{1,15}$/.test(text) ? Number(text) : null);

/** What was asked, and what was answered. @param {{journal: LiveJournal}} props */
function Conversation({ journal }) {
  const run = journal.run.value, steps = journal.steps.value;
  const context = steps.find((step) => step.kind === "context");
  const [asked, setAsked] = useState(context?.text ?? "");
  const over = TERMINAL.has(run.status);
  useEffect(() => {
    if (!context) return;
    setAsked(context.text);
    if (!context.text.endsWith("…")) return;
    journal.entry(context.first).then((entry) => entry && setAsked(textOf(entry.data.input?.contents) || entry.data.input?.text || ""), () => {});
  }, [context?.first, context?.text]);
  const messages = run.output?.messages ?? [];
  const speaking = over ? [] : steps.filter((step) => step.kind === "message" && step.open && step.attempt === run.attempt);
  return html`
    ${asked && html`<section class="card said"><h2>${t("run.asked")}</h2><${Long}><${Markdown} text=${asked} /></${Long}></section>`}
    ${messages.map((/** @type {any} */ message, /** @type {number} */ at) => html`<section class="card said" key=${at}>
      <h2>${t("run.answered")}</h2><${Long}><${Markdown} text=${textOf(message.content)} /></${Long}>
    </section>`)}
    ${speaking.map((step) => html`<section class="card said" key=${step.key} aria-busy="true"><h2>${t("run.answering")}</h2><${Markdown} text=${step.text} /></section>`)}
  `;
}

const LONG_PIXELS = 420;

/** What is very high is shown in part first. @param {{children?: any}} props */
function Long({ children }) {
  const [whole, setWhole] = useState(false);
  const [high, setHigh] = useState(false);
  const look = (/** @type {HTMLElement | null} */ box) => box && setHigh(box.scrollHeight > LONG_PIXELS + 40);
  return html`
    <div ref=${look} class=${whole ? "" : "long"}>${children}</div>
    ${high && !whole && html`<button class="quiet" onClick=${() => setWhole(true)}>${t("run.whole")}</button>`}
  `;
}
