// A run and the overview of its journal, kept up to date while it goes on; what a step holds is read when asked for.
import { signal } from "./html.js";
import { Problem, Unreachable, follow, get, path } from "./api.js";
import { Steps } from "./steps.js";
import { TERMINAL } from "../components/status.js";

/** @typedef {import("./steps.js").Entry} Entry */

const PAGE = 500;
const TOGETHER_MS = 120;
const MAX_KEPT = 60;

/** @param {string} runId @param {{live?: boolean}} [options] `live`: follow it until it ends. */
export function liveJournal(runId, { live = true } = {}) {
  const abort = new AbortController();
  const run = signal(/** @type {any} */ (null));
  const steps = signal(/** @type {import("./steps.js").Step[]} */ ([]));
  const failure = signal(/** @type {unknown} */ (null));
  const connected = signal(true);
  const complete = signal(false);
  const found = new Steps();
  let reading = false, again = false;

  /** Read what the journal has beyond what is known; one reading at a time. */
  async function read() {
    if (reading) return void (again = true);
    reading = true;
    try {
      run.value ??= await get(path("runs", runId), {}, abort.signal);
      do {
        again = false;
        for (let more = true; more && !abort.signal.aborted; ) {
          const query = { after: found.after || undefined, limit: PAGE, brief: true };
          const page = await get(path("runs", runId, "journal"), query, abort.signal);
          found.take(page.items);
          steps.value = found.steps;
          more = page.has_more;
        }
        run.value = await get(path("runs", runId), {}, abort.signal);
      } while (again);
      complete.value = true;
      connected.value = true;
    } catch (error) {
      if (abort.signal.aborted) return;
      // a host that is away for a while comes back: what is known stays on the page
      if (error instanceof Unreachable && run.value) {
        connected.value = false;
        later();
      } else failure.value = error;
    } finally {
      reading = false;
    }
  }

  let timer = 0;
  const later = () => (timer ||= window.setTimeout(() => ((timer = 0), read()), TOGETHER_MS));

  async function begin() {
    await read();
    if (!live || failure.value || abort.signal.aborted || TERMINAL.has(run.value.status)) return;
    await follow("/v1/stream", {
      query: { conversation_id: run.value.conversation_id, agent: run.value.agent },
      signal: abort.signal,
      on: ({ data }) => {
        if (data?.run_id !== runId) return false;
        later();
        return TERMINAL.has(data.status);
      },
      state: (up) => {
        connected.value = up;
        if (up) read(); // what came while the stream was cut off
      },
    });
    connected.value = true;
  }
  begin().catch((error) => (failure.value = error));

  /** @type {Map<number, Promise<Entry | null>>} */
  const kept = new Map();

  /** A whole entry; null where retention has removed it. The last MAX_KEPT are kept. @param {number} position @returns {Promise<Entry | null>} */
  function entry(position) {
    let asked = kept.get(position);
    if (!asked) {
      asked = get(path("runs", runId, "journal"), { after: position - 1 || undefined, limit: 1 }, abort.signal).then(
        (page) => page.items.find((/** @type {Entry} */ one) => one.position === position) ?? null,
        (error) => {
          kept.delete(position);
          if (error instanceof Problem && error.status === 410) return null;
          throw error;
        },
      );
      kept.set(position, asked);
      for (const old of kept.keys()) if (kept.size > MAX_KEPT) kept.delete(old);
    }
    return asked;
  }

  return { run, steps, failure, connected, complete, read, entry, stop: () => abort.abort() };
}

/** @typedef {ReturnType<typeof liveJournal>} LiveJournal */

/**
 * Positions of all entries that hold a text, page by page. @param {string} runId @param {string} text @param {AbortSignal} abort
 * @param {(positions: Set<number>, over: boolean) => void} tell
 */
export async function searchJournal(runId, text, abort, tell) {
  /** @type {Set<number>} */
  const found = new Set();
  for (let after = undefined, more = true; more && !abort.aborted; ) {
    const page = await get(path("runs", runId, "journal"), { after, limit: PAGE, brief: true, contains: text }, abort);
    for (const one of page.items) found.add(one.position);
    after = page.next_cursor ?? undefined;
    more = page.has_more;
    if (!abort.aborted) tell(new Set(found), !more);
  }
}
