// Two runs beside each other: which of their steps are the same, and what each took. Pure.
import { align } from "./diff.js";

/**
 * @typedef {import("./steps.js").Step} Step
 * @typedef {"same" | "changed" | "left" | "right" | "unsure"} Kind
 * @typedef {{key: string, kind: Kind, left: Step | null, right: Step | null}} Pair
 * `unsure`: both are alike as far as the overview goes, and it does not hold all of their text.
 */

/** What steps have in common that are the same moment of two runs. @param {Step} step */
const moment = (step) => `${step.kind} ${step.title} ${step.kind === "state" || step.kind === "model" ? step.note : ""}`;

const CUT = "…";

/** @param {Step} left @param {Step} right @returns {Kind} */
function judge(left, right) {
  if (left.kind === "status" || left.kind === "attempt") return "same";
  if (left.bad !== right.bad || left.note !== right.note || left.text !== right.text) return "changed";
  if (left.digest && right.digest && left.digest !== right.digest) return "changed";
  if (left.text.endsWith(CUT)) return "unsure";
  return ["message", "log", "pause", "steer"].includes(left.kind) ? "same" : "unsure";
}

/** How a run came to its host says nothing of what it did. @param {Step} step */
const counts = (step) => step.kind !== "status" || !["queued", "claimed"].includes(step.title);

/** @param {Step[]} all @param {Step[]} others @returns {Pair[]} */
export function pairs(all, others) {
  const left = all.filter(counts), right = others.filter(counts);
  const found = align(left.map(moment), right.map(moment));
  return found.map(([a, b]) => {
    const one = a < 0 ? null : left[a], other = b < 0 ? null : right[b];
    const kind = one === null ? "right" : other === null ? "left" : judge(one, other);
    return { key: `${a} ${b}`, kind, left: one, right: other };
  });
}

/** Names of fields that say who, when or which of many, and so differ between any two runs. */
const VOLATILE = new Set(["run_id", "tool_call_id", "message_id", "artifact_id", "pause_id", "call_id", "event_id", "ms", "timestamp", "deadline_at", "trace_id", "upload_id", "cursor", "latest_cursor", "event_seq", "transcript_seq", "attempt", "nth", "received_at", "created_at", "effect_key", "id"]);

/** A value without what differs between any two runs. @param {any} value @returns {any} */
export function lasting(value) {
  if (Array.isArray(value)) return value.map(lasting);
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).filter(([name]) => !VOLATILE.has(name)).map(([name, inner]) => [name, lasting(inner)]));
}

/**
 * @typedef {{status: string, seconds: number | null, input: number, output: number, cost: number, models: number, tools: number, steps: number}} Totals
 */

/** @param {any} run @param {Step[]} steps @returns {Totals} */
export function totalsOf(run, steps) {
  return {
    status: run.status, seconds: run.started_at ? (run.finished_at ?? Date.now() / 1000) - run.started_at : null,
    input: run.usage?.input_tokens ?? 0, output: run.usage?.output_tokens ?? 0, cost: run.cost ?? 0,
    models: steps.filter((step) => step.kind === "model").length, tools: steps.filter((step) => step.kind === "tool").length, steps: steps.length,
  };
}
