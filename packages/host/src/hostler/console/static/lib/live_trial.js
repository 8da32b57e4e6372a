// The run of a test: its answer as it is written, and how it ended.
import { signal } from "./html.js";
import { follow, get, path, post } from "./api.js";
import { may } from "./session.js";
import { textOf } from "./steps.js";
import { TERMINAL } from "../components/status.js";

/** @typedef {{run: any, pauses: any[], text: string, reasoning: string, error: string, failure: unknown, connected: boolean}} TrialState */

/** Of pauses that wait for people. */
const OPEN = new Set(["open", "needs_review"]);

/** @returns {TrialState} */
const NOTHING = () => ({ run: null, pauses: [], text: "", reasoning: "", error: "", failure: null, connected: true });

/** @param {string} runId */
export function liveTrial(runId) {
  const abort = new AbortController();
  const state = signal(NOTHING());
  const change = (/** @type {Partial<TrialState>} */ changes) => (state.value = { ...state.value, ...changes });
  async function read() {
    const run = await get(path("runs", runId), {}, abort.signal);
    const waits = may("pauses:read") && !TERMINAL.has(run.status);
    const pauses = waits ? (await get("/v1/pauses", { run_id: runId }, abort.signal)).items : [];
    change({ run, pauses: pauses.filter((/** @type {any} */ one) => OPEN.has(one.status)) });
  }

  /** @param {import("./api.js").StreamEvent} event */
  function on({ event, data }) {
    const { text, reasoning } = state.value, given = data.data ?? {};
    if (event === "message.delta") change({ text: text + textOf(given.chunk?.content), reasoning: reasoning + (given.chunk?.reasoning ?? "") });
    else if (event === "message.completed") change({ text: textOf(given.message?.content) });
    else if (event === "run.failed") change({ error: given.error ?? given.message ?? "" });
    else if (event === "interaction.requested") read().catch(fail);
  }
  const fail = (/** @type {unknown} */ error) => void (abort.signal.aborted || change({ failure: error }));

  async function begin() {
    await read();
    await follow(path("runs", runId, "stream"), {
      signal: abort.signal,
      state: (up) => change({ connected: up }),
      on: (event) => {
        on(event);
        return ["run.completed", "run.failed", "run.cancelled"].includes(event.event);
      },
    });
    // the record is written with the end, but the run may have been told before it was read
    for (let tries = 0; tries < 20 && !abort.signal.aborted; tries++) {
      await read();
      if (TERMINAL.has(state.value.run.status)) return;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
  begin().catch(fail);
  return { state, read: () => read().catch(fail), stop: () => abort.abort(), cancel: () => post(path("runs", runId, "cancel"), {}) };
}
