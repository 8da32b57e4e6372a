// Everything that a run did, in order: to filter, search, open, and share a place of.
import { html, useEffect, useMemo, useRef, useState } from "../lib/html.js";
import { duration, money, number, short } from "../lib/format.js";
import { t } from "../lib/i18n.js";
import { useOutcomes } from "../lib/live_actions.js";
import { journalPages } from "../lib/live_journal.js";
import { useReadUpTo } from "../lib/read_up_to.js";
import { here, setQuery } from "../lib/router.js";
import { KINDS, isInDoubt } from "../lib/steps.js";
import { notice } from "./notice.js";
import { ActionMarks } from "./action_step.js";
import { lazy } from "./lazy.js";
import { reasonOf } from "./states.js";
import { StepList } from "./step_list.js";
import { TERMINAL } from "./status.js";
import { titleOf } from "./step_title.js";

/** @typedef {import("../lib/steps.js").Step} Step @typedef {import("../lib/live_journal.js").LiveJournal} LiveJournal */

/** Most steps are never opened. */
const StepDetails = lazy(() => import("./step_details.js").then((module) => module.StepDetails));
const ROW_PIXELS = 38;
const END_PIXELS = 80;
const NOTHING = /** @type {Set<number>} */ (new Set());

/** @param {{journal: LiveJournal}} props */
export function RunTimeline({ journal }) {
  const run = journal.run.value, steps = useOutcomes(run.run_id, journal.steps.value);
  const kind = here.value.query.get("kind") ?? "", find = here.value.query.get("find") ?? "";
  const [hits, searching] = useHits(run.run_id, find, journal.last.value);
  const [opened, setOpened] = useState(/** @type {Set<string>} */ (new Set()));
  const control = useRef({ show: (/** @type {number} */ _) => {} });
  const shown = useMemo(
    () => (kind || find ? steps.filter((step) => (!kind || step.kind === kind) && (!find || isHit(step, hits))) : steps),
    [steps, kind, find, hits],
  );
  const toggle = (/** @type {string} */ key) => setOpened((before) => {
    const next = new Set(before);
    if (!next.delete(key)) next.add(key);
    return next;
  });
  useAddressed(shown, (index) => {
    setOpened((before) => new Set([...before, shown[index].key]));
    requestAnimationFrame(() => control.current.show(index));
  });
  useFollowing(shown.length, !TERMINAL.has(run.status));
  const begin = steps[0]?.from ?? run.created_at;
  const end = Math.max(begin + 0.001, steps.at(-1)?.to ?? 0, run.finished_at ?? 0);
  const several = steps.length > 0 && steps[steps.length - 1].attempt > 1;
  return html`
    <section aria-label=${t("run.timeline")}>
      <${Tools} steps=${steps} shown=${shown.length} kind=${kind} find=${find} searching=${searching} reading=${!journal.complete.value} />
      <${StepList}
        items=${shown} height=${ROW_PIXELS} keyOf=${(/** @type {Step} */ step) => step.key} opened=${opened} label=${t("run.timeline")}
        control=${control.current} onKeyDown=${(/** @type {KeyboardEvent} */ event) => walk(event, shown.length, control.current)}
        row=${(/** @type {Step} */ step, /** @type {number} */ index, /** @type {boolean} */ open) => html`<${StepRow}
          step=${step} begin=${begin} end=${end} run=${run} open=${open} toggle=${() => toggle(step.key)} attempt=${several} first=${index === 0 || shown[index - 1].attempt !== step.attempt} />`}
        inside=${(/** @type {Step} */ step) => html`<${StepDetails} step=${step} journal=${journal} />`}
      />
    </section>
  `;
}

/** Positions that hold the text, and whether they are still looked for. @param {string} runId @param {string} find @param {number} last @returns {[Set<number>, boolean]} */
function useHits(runId, find, last) {
  const key = `${runId} ${find}`;
  const [found, setFound] = useState({ key, hits: NOTHING, over: false });
  useReadUpTo(find ? last : 0, [key], async (after, abort) => {
    for await (const entries of journalPages(runId, { after, contains: find }, abort)) {
      setFound((before) => {
        const known = before.key === key ? before : { hits: NOTHING, over: false };
        return { key, hits: entries.length ? new Set([...known.hits, ...entries.map((one) => one.position)]) : known.hits, over: known.over };
      });
    }
    setFound((before) => (before.over ? before : { ...before, over: true }));
  }, (error) => {
    setFound((before) => ({ key, hits: before.key === key ? before.hits : NOTHING, over: true }));
    notice(reasonOf(error), true);
  });
  if (!find) return [NOTHING, false];
  return found.key === key ? [found.hits, !found.over] : [NOTHING, true];
}

/** @param {Step} step @param {Set<number>} hits */
function isHit(step, hits) {
  if (step.entries.some((position) => hits.has(position))) return true;
  if (step.kind !== "message") return false;
  for (let at = step.first; at <= step.position; at++) if (hits.has(at)) return true;
  return false;
}

/** The step that the address names (`#step-12`), once it is there. @param {Step[]} steps @param {(index: number) => void} found */
function useAddressed(steps, found) {
  const done = useRef("");
  const look = () => {
    const wanted = /^#step-(\d{1,15})$/.exec(location.hash);
    if (!wanted || done.current === location.hash) return;
    const position = Number(wanted[1]), index = steps.findIndex((step) => step.first <= position && position <= step.position);
    if (index < 0) return;
    done.current = location.hash;
    found(index);
  };
  useEffect(look, [steps]);
  useEffect(() => {
    const again = () => ((done.current = ""), look());
    addEventListener("hashchange", again);
    return () => removeEventListener("hashchange", again);
  });
}

/** Stay at the end of a run that goes on, for who is there. @param {number} length @param {boolean} live */
function useFollowing(length, live) {
  const atEnd = useRef(false);
  useEffect(() => {
    const look = () => (atEnd.current = scrollY > 0 && document.documentElement.scrollHeight - innerHeight - scrollY < END_PIXELS);
    addEventListener("scroll", look, { passive: true });
    return () => removeEventListener("scroll", look);
  }, []);
  useEffect(() => {
    if (live && atEnd.current) scrollTo(0, document.documentElement.scrollHeight);
  }, [length, live]);
}

/** Arrows walk through the rows, Home and End lead to the first and last. @param {KeyboardEvent} event @param {number} length @param {{show: (index: number) => void}} control */
function walk(event, length, control) {
  const target = /** @type {HTMLElement} */ (event.target);
  if (!target.classList.contains("row")) return;
  const at = Number(target.closest("[data-index]")?.getAttribute("data-index"));
  const next = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: length - 1 }[event.key];
  if (next === undefined || next < 0 || next >= length) return;
  event.preventDefault();
  const focus = () => {
    const row = /** @type {HTMLElement | null} */ (document.querySelector(`.steps [data-index="${next}"] .row`));
    row?.focus();
    return row;
  };
  if (focus()) return;
  control.show(next);
  requestAnimationFrame(focus);
}

/** @param {{steps: Step[], shown: number, kind: string, find: string, searching: boolean, reading: boolean}} props */
function Tools({ steps, shown, kind, find, searching, reading }) {
  const kinds = useMemo(() => KINDS.filter((name) => steps.some((step) => step.kind === name)), [steps]);
  const jump = (/** @type {number} */ top) => scrollTo(0, top);
  return html`
    <form class="filters step-tools" role="search" onSubmit=${(/** @type {Event} */ event) => event.preventDefault()}>
      <label class="field"><span>${t("run.kind")}</span>
        <select onChange=${(/** @type {any} */ event) => setQuery({ kind: event.target.value })}>
          <option value="">${t("runs.any")}</option>
          ${kinds.map((name) => html`<option key=${name} value=${name} selected=${name === kind}>${t(`step.${name}`)}</option>`)}
        </select>
      </label>
      <label class="field"><span>${t("run.find")}</span>
        <input type="search" value=${find} maxlength="200" onChange=${(/** @type {any} */ event) => setQuery({ find: event.target.value.trim() })} />
      </label>
      <span class="dim" role="status">${searching || reading ? t("state.loading") : t("run.steps", { count: shown, number: number(shown) })}</span>
      <button type="button" class="quiet" onClick=${() => jump(document.documentElement.scrollHeight)}>${t("run.to_end")}</button>
    </form>
  `;
}

/** @param {{step: Step, begin: number, end: number, run: any, open: boolean, toggle: () => void, attempt: boolean, first: boolean}} props */
function StepRow({ step, begin, end, run, open, toggle, attempt, first }) {
  const seconds = step.to - step.from;
  const width = Math.max(0.4, (100 * seconds) / (end - begin)), left = Math.min(100 - width, (100 * (step.from - begin)) / (end - begin));
  const tokens = (step.usage?.input_tokens ?? 0) + (step.usage?.output_tokens ?? 0), doubt = isInDoubt(step, run);
  return html`
    <div class="step of-${step.kind} ${step.bad ? "bad" : ""} ${attempt && first ? "begins" : ""}">
      <button class="row" aria-expanded=${open} onClick=${toggle}>
        <span class="kind">${t(`step.${step.kind}`)}</span>
        <span class="what" dir="auto"><strong>${titleOf(step)}</strong> ${step.note || step.text.slice(0, 160)}</span>
        <span class="marks">
          ${attempt && first && html`<span class="mark">${t("run.attempt", { number: step.attempt })}</span>`}
          ${step.kind === "action" && html`<${ActionMarks} step=${step} doubt=${doubt} />`}
          ${doubt && step.kind !== "action" && html`<span class="mark waits">${t("run.in_doubt")}</span>`}
          ${step.inherited && html`<span class="mark">${t("run.inherited")}</span>`}
          ${step.effect && step.kind === "tool" && html`<span class="mark">${t(`step_effect.${step.effect}`)}</span>`}
        </span>
        <span class="dim figures">
          ${[tokens ? t("runs.tokens", { tokens: short(tokens) }) : "", step.cost ? money(step.cost) : "", seconds >= 0.001 ? duration(seconds) : ""].filter(Boolean).join(" · ")}
        </span>
        <span class="bar" aria-hidden="true"><span style=${{ marginLeft: `${left}%`, width: `${width}%` }} /></span>
      </button>
    </div>
  `;
}
