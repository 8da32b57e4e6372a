// Decisions of people on calls that wait: what a person can do, and how it is sent.
import { Problem, path, post } from "./api.js";
import { moment } from "./format.js";
import { t } from "./i18n.js";
import { may, session } from "./session.js";

/**
 * @typedef {{subject: string, vote: string, at: number, name: string | null}} Vote
 * @typedef {{call_id: string, kind: string, title: string, tool: string | null, args: Record<string, any>, args_hash: string,
 *   args_schema: any, result_schema: any, fields: any[], actions: any[], editable: boolean, locked: string[],
 *   may_decide: boolean, decision: string, execution: string, expires_at: number | null, approvals_needed: number,
 *   approvers: string[], separation_of_duty: boolean, votes: Vote[], proposed_args: Record<string, any> | null,
 *   edited_by: string | null, description: string | null, executor: string, question_kind: string | null,
 *   fallback_text: string | null, tool_call_id: string | null, decided_by: string | null, decided_by_name: string | null,
 *   decided_at: number | null, comment: string | null, result: any, is_error: boolean,
 *   values: Record<string, any> | null, action: string | null, review: string | null, tool_changed: boolean}} Call
 * @typedef {{id: string, run_id: string, segment: number, revision: number, status: string, form: string, agent: string,
 *   conversation_id: string | null, requester: string | null, created_at: number, expires_at: number | null,
 *   calls: Call[], settled_at: number | null}} Pause
 */

/** Statuses of pauses that wait for people. */
export const WAITING = new Set(["open", "needs_review"]);
export const MAX_SIMILAR_USES = 100;
export const MAX_SIMILAR_MINUTES = 24 * 60;

/** Whether a call has no decision yet, or its outcome is not known. @param {Call} call */
export const isOpen = (call) => call.review !== null || call.decision === "undecided";

/** The vote that this person has cast on what is asked now. @param {Pause} pause @param {Call} call */
export const ownVote = (pause, call) =>
  call.decision === "undecided" && call.approvals_needed > 1
    ? call.votes.find((vote) => vote.subject === session.value?.subject)
    : undefined;

/** Whether a pause waits for this person. @param {Pause} pause */
export const waitsForMe = (pause) =>
  WAITING.has(pause.status) && may("pauses:write") && pause.calls.some((call) => call.may_decide && isOpen(call) && !ownVote(pause, call));

/** Only the installation's administrator adds to the budget of a workspace. @param {Call} call */
export const mayAdd = (call) => call.kind !== "budget" || !/^workspace(_day)?\./.test(call.args.account ?? "") || may("installation");

/** Whether the call can be approved without another look at it, together with others. @param {Pause} pause @param {Call} call */
export const isPlain = (pause, call) =>
  call.kind === "approval" && call.review === null && call.decision === "undecided" && call.may_decide && !ownVote(pause, call);

/** Whether similar calls can be approved ahead. @param {Call} call */
export const mayApproveSimilar = (call) => call.kind === "approval" && call.executor === "host" && call.approvals_needed === 1;

/** @param {Pause} pause @param {any[]} actions @returns {Promise<{status: string, remaining: number}>} */
export const act = (pause, actions) => post(path("pauses", pause.id, "actions"), { revision: pause.revision, actions });

/** @param {Pause} pause @param {Call} call @param {{outcome: string, result?: any, comment?: string}} body */
export const resolve = (pause, call, body) => post(path("pauses", pause.id, "calls", call.call_id, "resolve"), body);

/** The action that approves what is shown. @param {Call} call @param {Record<string, any>} [more] */
export const approval = (call, more = {}) => ({ call_id: call.call_id, type: "approve", args_hash: call.args_hash, ...more });

/** The action that denies what is shown. @param {Call} call @param {string} [reason] */
export const denial = (call, reason) => ({ call_id: call.call_id, type: "deny", args_hash: call.args_hash, ...(reason && { comment: reason }) });

/** Why a decision was refused, in words; empty where reasonOf says it. @param {unknown} error */
export function refusalOf(error) {
  if (!(error instanceof Problem)) return "";
  const { reason, decision, decided_by, decided_at } = error.details;
  if (reason === "already_decided") {
    return t("decision.already_decided", { by: decided_by ?? "", what: t(`decision.was.${decision}`), at: decided_at ? moment(decided_at) : "" });
  }
  if (["stale_view", "superseded", "expired", "not_approver"].includes(reason)) return t(`decision.refused.${reason}`);
  return error.status === 404 ? t("decision.refused.gone") : "";
}

/** Whether others have decided otherwise before. @param {unknown} error */
export const isDecided = (error) => error instanceof Problem && error.details.reason === "already_decided";

/** Whether what is shown is not what the host has: it has to be read again. @param {unknown} error */
export const isOld = (error) => error instanceof Problem && [403, 404, 409, 410].includes(error.status);

/** Who may decide, in words. @param {Call} call */
export const deciders = (call) => (call.approvers ?? []).map((subject) => {
  const [kind, ...rest] = subject.split(":");
  return t(`decision.who.${subject === "*" ? "anybody" : kind}`, { name: rest.join(":") });
}).join(", ");

/** How the host itself asks, in English. @type {Record<string, (tool: string) => string>} */
const ASKED = { approval: (tool) => `May ${tool} be called?`, client_tool: (tool) => `${tool} is for the client to run`, in_doubt: (tool) => `Did ${tool} do its work?` };

/** What is asked, in one line. @param {Call} call */
export function titleOf(call) {
  if (call.kind === "budget") return t("decision.title.budget", { what: t(`decision.quantity.${call.args.budget}`) });
  const tool = call.tool ?? "";
  if (call.review === "in_doubt" && tool) return t("decision.title.in_doubt", { tool });
  if (call.title && call.title !== ASKED[call.kind]?.(tool)) return call.title;
  return tool ? t(`decision.title.${call.kind}`, { tool }) : t(`decision.kind.${call.kind}`);
}
