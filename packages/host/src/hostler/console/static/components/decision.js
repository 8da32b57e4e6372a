// One pause as the person sees it who decides: what is asked, with which arguments, until when, and the decision.
import { html, useEffect, useRef, useState } from "../lib/html.js";
import { moment, number } from "../lib/format.js";
import { t } from "../lib/i18n.js";
import { act, approval, deciders, denial, isDecided, isOld, isOpen, isPlain, ownVote, refusalOf, titleOf } from "../lib/decide.js";
import { may } from "../lib/session.js";
import { Approve } from "./decision_approve.js";
import { Answer, ClientResult, Resolve } from "./decision_answer.js";
import { Diff } from "./diff.js";
import { Arguments, Exact } from "./exact.js";
import { Value } from "./json.js";
import { reasonOf } from "./states.js";
import { Ago } from "./time.js";
import { Until } from "./until.js";

/**
 * @typedef {import("../lib/decide.js").Pause} Pause
 * @typedef {import("../lib/decide.js").Call} Call
 * @typedef {{busy: boolean, wrong: string, note: string, say: (text: string) => void, send: (work: () => Promise<any>) => Promise<boolean>}} Sending
 * @typedef {{revision: number, args: Record<string, any>, hash: string}} View
 */

/** A button that has just come under a finger is not pressed by the tap before. */
const SETTLE_MS = 350;

/**
 * Everything that a pause asks. `changed` is called after a decision, and where the host has another state than
 * `pause` shows: the caller reads the pause again, and renders it.
 * @param {{pause: Pause, changed: () => any}} props
 */
export function Decision({ pause, changed }) {
  const plain = pause.calls.filter((call) => isPlain(pause, call));
  const views = useViews(pause);
  const over = ["cancelled", "superseded", "failed"].includes(pause.status);
  return html`
    <div class="decision">
      <div aria-live="polite">${over && html`<p class="over">${t(`decision.over.${pause.status}`)}</p>`}</div>
      ${pause.calls.map((call) => html`<${CallCard} key=${call.call_id} pause=${pause} call=${call} views=${views} changed=${changed} />`)}
      ${plain.length > 1 && (plain.some(views.isStale)
        ? html`<p class="dim" role="status">${t("decision.look_first")}</p>`
        : html`<${Together} pause=${pause} calls=${plain} changed=${changed} />`)}
    </div>
  `;
}

/**
 * What was on the page when the person began to look at each call: a decision is never about anything else, also one
 * about several calls.
 * @param {Pause} pause
 */
function useViews(pause) {
  const seen = useRef(/** @type {Map<string, View>} */ (new Map())), [, look] = useState(0);
  const now = (/** @type {Call} */ call) => ({ revision: pause.revision, args: call.args, hash: call.args_hash });
  const keyOf = (/** @type {Call} */ call) => `${pause.id} ${call.call_id}`;
  for (const call of pause.calls) if (!seen.current.has(keyOf(call))) seen.current.set(keyOf(call), now(call));
  const of = (/** @type {Call} */ call) => /** @type {View} */ (seen.current.get(keyOf(call)));
  return {
    of,
    isStale: (/** @type {Call} */ call) =>
      isOpen(call) && call.may_decide && (of(call).hash !== call.args_hash || of(call).revision !== pause.revision),
    acknowledge(/** @type {Call} */ call) {
      seen.current.set(keyOf(call), now(call));
      look((count) => count + 1);
    },
  };
}

/** Sends one thing at a time, and says why it failed; `note`: others have decided before. @param {() => any} changed @param {() => void} [done] @returns {Sending} */
function useSending(changed, done = () => {}) {
  const [busy, setBusy] = useState(false), [wrong, setWrong] = useState(""), [note, setNote] = useState("");
  return {
    busy, wrong, note, say: setWrong,
    async send(work) {
      setBusy(true);
      setWrong("");
      setNote("");
      try {
        await work();
        await changed();
        done();
        return true;
      } catch (error) {
        if (isDecided(error)) setNote(refusalOf(error));
        else setWrong(refusalOf(error) || reasonOf(error));
        if (isOld(error)) await changed();
        return false;
      } finally {
        setBusy(false);
      }
    },
  };
}

/** @param {{pause: Pause, call: Call, views: ReturnType<typeof useViews>, changed: () => any}} props */
function CallCard({ pause, call, views, changed }) {
  const card = useRef(/** @type {HTMLElement | null} */ (null));
  // the button that was pressed goes away: the focus stays where its outcome is
  const sending = useSending(changed, () => card.current?.focus()), settled = useSettled();
  const open = isOpen(call), stale = views.isStale(call);
  const acknowledge = () => {
    sending.say("");
    views.acknowledge(call);
  };
  const question = call.kind === "question";
  return html`
    <article ref=${card} tabindex="-1" class="call-card ${open ? "is-open" : "is-decided"}" aria-label=${titleOf(call)}>
      <header class="call-head">
        <h3 dir="auto"><${Exact} text=${titleOf(call)} /></h3>
        ${open && call.expires_at !== null && html`<${Until} at=${call.expires_at} />`}
      </header>
      ${call.tool && html`<p class="dim tool-line"><code><${Exact} text=${call.tool} /></code>${call.executor === "runner" && html` · ${t("decision.by_runner")}`}</p>`}
      ${call.tool_changed && html`<p class="warning">${t("decision.tool_changed")}</p>`}
      ${call.description && html`<p class="described" dir="auto" tabindex="0"><${Exact} text=${call.description} /></p>`}
      ${question && call.fallback_text && !call.fields.length && !call.actions.length && html`<p dir="auto"><${Exact} text=${call.fallback_text} /></p>`}
      ${stale && html`<${Stale} seen=${views.of(call)} pause=${pause} call=${call} acknowledge=${acknowledge} />`}
      ${!question && !stale && html`<${Shown} call=${call} />`}
      ${open && html`<${Votes} call=${call} />`}
      ${!stale && html`<${Act} pause=${pause} call=${call} sending=${sending} ready=${settled && !sending.busy} />`}
      <div aria-live="polite">
        ${open && sending.wrong && html`<p class="wrong" role="alert" dir="auto">${sending.wrong}</p>`}
        ${sending.note && html`<p class="dim" dir="auto">${sending.note}</p>`}
        ${!open && html`<${Outcome} call=${call} />`}
      </div>
    </article>
  `;
}

/** What is asked for: arguments, or the budget. @param {{call: Call}} props */
const Shown = ({ call }) => html`
  ${call.kind === "budget" ? html`<${Budget} call=${call} />` : html`<${Arguments} args=${call.args} locked=${call.locked} />`}
  ${call.proposed_args && html`<details class="more"><summary>${t("decision.edited_by", { by: call.edited_by })}</summary>
    <${Diff} before=${call.proposed_args} after=${call.args} labels=${[t("decision.proposed"), t("decision.edited")]} />
  </details>`}
`;

/** @param {{call: Call}} props */
function Budget({ call }) {
  const { account, limit, used, reserved, needs, budget } = call.args;
  const rows = /** @type {[string, any][]} */ ([["limit", limit], ["used", used], ["reserved", reserved], ["needs", needs]]);
  return html`<dl class="facts budget">
    <dt>${t("decision.budget.account")}</dt><dd dir="auto"><code>${account}</code></dd>
    ${rows.map(([name, value]) => html`<dt>${t(`decision.budget.${name}`)}</dt><dd>${number(value)}${budget !== "cost" && html` <span class="dim">${t(`decision.quantity.${budget}`)}</span>`}</dd>`)}
  </dl>`;
}

/** The digest alone does not tell: of a changed tool it differs too. @param {View} seen @param {Call} call */
const hasOtherArguments = (seen, call) => JSON.stringify(seen.args) !== JSON.stringify(call.args);

/** What has changed since the person began to look. @param {{seen: View, pause: Pause, call: Call, acknowledge: () => void}} props */
const Stale = ({ seen, pause, call, acknowledge }) => html`
  <div class="changed" role="alert">
    <strong>${t(hasOtherArguments(seen, call) ? "decision.changed_arguments" : "decision.asked_again")}</strong>
    ${hasOtherArguments(seen, call)
      ? html`<${Diff} before=${seen.args} after=${call.args} labels=${[t("decision.before"), t("decision.now")]} />`
      : html`<${Shown} call=${call} />`}
    <p class="dim">${t("decision.revision", { revision: pause.revision })}${call.edited_by && html` · ${t("decision.edited_by", { by: call.edited_by })}`}</p>
    <button type="button" class="primary" onClick=${acknowledge}>${t("decision.seen")}</button>
  </div>
`;

/** How many have approved, and who may. @param {{call: Call}} props */
function Votes({ call }) {
  if (call.decision !== "undecided") return null;
  const votes = call.votes.filter((vote) => vote.vote === "approve");
  const several = call.approvals_needed > 1;
  if (!several && (call.may_decide || !call.approvers?.length)) return null;
  return html`<div class="votes">
    ${several && html`<p><strong>${t("decision.approvals", { given: votes.length, needed: call.approvals_needed })}</strong>
      <progress max=${call.approvals_needed} value=${votes.length} aria-label=${t("decision.approvals", { given: votes.length, needed: call.approvals_needed })}></progress></p>`}
    ${votes.map((vote) => html`<p class="dim" key=${`${vote.subject} ${vote.at}`}><bdi>${vote.name ?? vote.subject}</bdi> · <${Ago} at=${vote.at} /></p>`)}
    ${call.approvers?.length > 0 && html`<p class="dim" dir="auto">${t("decision.deciders", { who: deciders(call) })}${call.separation_of_duty && ` ${t("decision.not_requester")}`}</p>`}
  </div>`;
}

/** What the person can do with the call now, or why nothing. @param {{pause: Pause, call: Call, sending: Sending, ready: boolean}} props */
function Act({ pause, call, sending, ready }) {
  if (!isOpen(call) || !["open", "needs_review"].includes(pause.status)) return null;
  if (!may("pauses:write")) return html`<p class="dim">${t("decision.no_right")}</p>`;
  if (!call.may_decide) return html`<p class="dim">${t(call.expires_at !== null && call.expires_at * 1000 <= Date.now() ? "decision.too_late" : "decision.not_you")}</p>`;
  if (ownVote(pause, call)) return html`<p class="dim">${t("decision.voted")}</p>`;
  const props = { pause, call, sending, ready };
  if (call.review === "in_doubt") return html`<${Resolve} ...${props} />`;
  if (call.kind === "question") return html`<${Answer} ...${props} />`;
  if (call.kind === "client_tool") return html`<${ClientResult} ...${props} />`;
  return html`<${Approve} ...${props} />`;
}

/** What was decided, by whom and why. @param {{call: Call}} props */
function Outcome({ call }) {
  const by = call.decided_by_name ?? call.decided_by;
  return html`<div class="outcome of-${call.decision}">
    <p><strong>${t(`decision.was.${call.decision}`)}</strong>
      ${by && html` · <bdi>${by === "host" || by === "clock" ? t("decision.by_host") : by}</bdi>`}
      ${call.decided_at && html` · <span title=${moment(call.decided_at)}><${Ago} at=${call.decided_at} /></span>`}
    </p>
    ${call.decision === "expired" && html`<p class="dim">${t("decision.expired_text")}</p>`}
    ${call.comment && html`<blockquote dir="auto"><${Exact} text=${call.comment} /></blockquote>`}
    ${call.action && html`<p><bdi>${call.actions.find((one) => one.name === call.action)?.label ?? call.action}</bdi></p>`}
    ${call.values && Object.keys(call.values).length > 0 && html`<${Arguments} args=${call.values} />`}
    ${call.execution !== "none" && html`<p class="dim">${t(`decision.execution.${call.execution}`)}</p>`}
    ${call.result !== null && html`<details class="more"><summary>${t(call.is_error ? "part.error" : "part.result")}</summary><${Value} value=${call.result} /></details>`}
  </div>`;
}

/** Several approvals of one pause at once: all or none. @param {{pause: Pause, calls: Call[], changed: () => any}} props */
function Together({ pause, calls, changed }) {
  const sending = useSending(changed), settled = useSettled();
  const all = (/** @type {(call: Call) => any} */ of) => sending.send(() => act(pause, calls.map((call) => of(call))));
  return html`<div class="together">
    <button type="button" disabled=${sending.busy || !settled} onClick=${() => all((call) => approval(call))}>${t("decision.approve_all", { count: calls.length })}</button>
    <button type="button" class="danger" disabled=${sending.busy || !settled} onClick=${() => all((call) => denial(call))}>${t("decision.deny_all", { count: calls.length })}</button>
    ${sending.wrong && html`<p class="wrong" role="alert" dir="auto">${sending.wrong}</p>`}
    ${sending.note && html`<p class="dim" role="status" dir="auto">${sending.note}</p>`}
  </div>`;
}

/** False for a moment after the buttons came onto the page. */
function useSettled() {
  const [settled, set] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => set(true), SETTLE_MS);
    return () => clearTimeout(timer);
  }, []);
  return settled;
}
