// A run and the overview of its journal, kept up to date while it goes on; what a step holds is read when asked for.
import { batch, signal } from "./html.js";
import { Problem, get, isPassing, path, sleep } from "./api.js";
import { liveStream } from "./live_stream.js";
import { Steps } from "./steps.js";
import { TERMINAL } from "../components/status.js";

/** @typedef {import("./steps.js").Entry} Entry */

const PAGE = 500;
const TOGETHER_MS = 120;
const RETRY_MS = 1000;
const MAX_KEPT = 60;

/** @param {string} runId */
export function liveJournal(runId) {
  const abort = new AbortController();
  const run = signal(/** @type {any} */ (null));
  const steps = signal(/** @type {import("./steps.js").Step[]} */ ([]));
  const failure = signal(/** @type {unknown} */ (null));
  const connected = signal(true);
  const complete = signal(false);
  /** The position of the last entry that is known. */
  const last = signal(0);
  const found = new Steps();
  let timer = 0, end = () => {};

  /** Read what the journal has beyond what is known. @param {AbortSignal} until */
  async function read(until) {
    for (let over = false; !over; ) {
      over = TERMINAL.has(run.value.status);
      for (let more = true; more; ) {
        const page = await get(path("runs", runId, "journal"), { after: found.after || undefined, limit: PAGE, brief: true }, until);
        found.take(page.items);
        batch(() => {
          steps.value = found.steps;
          last.value = found.after;
        });
        more = page.has_more;
      }
      if (over) break;
      run.value = await get(path("runs", runId), {}, until);
      over = !TERMINAL.has(run.value.status); // what came with its end may not have been read
    }
    complete.value = true;
    if (TERMINAL.has(run.value.status)) end();
  }

  /** Follow the run until it ends. */
  function follow() {
    const { conversation_id, agent } = run.value;
    const stream = liveStream({
      place: conversation_id === null ? { agent } : { conversation_id }, // where a chat is open, they share it
      snapshot: read,
      on: ({ data }) => {
        if (data?.run_id === runId) timer ||= window.setTimeout(() => ((timer = 0), stream.read()), TOGETHER_MS);
      },
    });
    const watch = [
      stream.connected.subscribe((/** @type {boolean} */ up) => (connected.value = up)),
      stream.failure.subscribe((/** @type {unknown} */ error) => (failure.value = error)),
    ];
    end = () => {
      for (const stop of watch) stop();
      stream.stop();
      clearTimeout(timer);
      connected.value = true;
    };
  }

  async function begin() {
    run.value = await get(path("runs", runId), {}, abort.signal);
    if (!TERMINAL.has(run.value.status)) return follow();
    while (!complete.value) {
      try {
        await read(abort.signal);
        connected.value = true;
      } catch (error) {
        if (abort.signal.aborted || !isPassing(error)) throw error;
        connected.value = false;
        await sleep(RETRY_MS, abort.signal);
      }
    }
  }
  begin().catch((error) => abort.signal.aborted || (failure.value = error));

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

  return { run, steps, failure, connected, complete, last, entry, stop: () => (end(), abort.abort()) };
}

/** @typedef {ReturnType<typeof liveJournal>} LiveJournal */

/**
 * The entries after a position, page by page; with `contains`, those that hold a text.
 * @param {string} runId @param {{after: number, contains?: string}} query @param {AbortSignal} abort
 * @returns {AsyncGenerator<Entry[]>}
 */
export async function* journalPages(runId, { after, contains }, abort) {
  /** @type {string | number | undefined} */
  let from = after || undefined;
  for (let more = true; more; ) {
    const page = await get(path("runs", runId, "journal"), { after: from, limit: PAGE, brief: true, contains }, abort);
    yield page.items;
    from = page.next_cursor ?? undefined;
    more = page.has_more;
  }
}
