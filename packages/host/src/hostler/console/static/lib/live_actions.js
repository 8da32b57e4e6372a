// What became of actions that a run asked for and waited for no answer of: the audit log tells, often after the run.
import { useEffect, useState } from "./html.js";
import { get } from "./api.js";
import { polled } from "./polled.js";
import { may } from "./session.js";

/** @typedef {import("./steps.js").Step} Step */
/** @typedef {Map<number, {outcome: string, reason: string, target: any}>} Facts By the number of the result. */

const OVER = new Set(["done", "refused", "unsupported", "failed"]);
const SECONDS = 4;
const MAX_PAGES = 20;

/** The steps of a run, with what became of its actions. @param {string} runId @param {Step[]} steps @returns {Step[]} */
export function useOutcomes(runId, steps) {
  const [facts, setFacts] = useState(/** @type {Facts} */ (new Map()));
  const waits = may("audit:read") && steps.some((step) => step.sequence !== undefined && !OVER.has(facts.get(step.sequence)?.outcome ?? ""));
  useEffect(() => {
    if (!waits) return;
    const reading = polled(async (abort) => setFacts(await read(runId, abort)), SECONDS);
    return reading.stop;
  }, [runId, waits]);
  return facts.size === 0 ? steps : steps.map((step) => {
    const fact = step.sequence === undefined ? undefined : facts.get(step.sequence);
    return fact ? { ...step, outcome: fact.outcome, text: fact.reason, bad: ["refused", "failed"].includes(fact.outcome) } : step;
  });
}

/** @param {string} runId @param {AbortSignal} abort @returns {Promise<Facts>} */
async function read(runId, abort) {
  /** @type {Facts} */
  const found = new Map();
  let cursor;
  for (let page = 0; page < MAX_PAGES; page++) { // newest first: what was said last counts
    const answer = await get("/v1/audit", { target: runId, action: "action", limit: 100, cursor }, abort);
    for (const { action, body } of answer.items) {
      if (typeof body.sequence === "number" && !found.has(body.sequence)) found.set(body.sequence, { outcome: action.replace("action.", ""), reason: body.reason ?? "", target: body.target });
    }
    if (!answer.has_more) break;
    cursor = answer.next_cursor;
  }
  return found;
}
