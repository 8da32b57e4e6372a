// The present of something, read once, and what happens to it from then on: nothing is missing, nothing comes twice.
import { signal } from "./html.js";
import { isPassing, sleep } from "./api.js";
import { join } from "./page_stream.js";
import { Turn } from "./turns.js";

/**
 * @typedef {import("./api.js").StreamEvent} StreamEvent
 * @typedef {import("./page_stream.js").Place} Place
 * @typedef {{place?: Place, types?: ("run.status" | "pause.status" | "pause.call")[], on: (event: StreamEvent) => void,
 *   snapshot?: (signal: AbortSignal) => Promise<void>}} Live
 */

const RETRY_MS = 1000;

/**
 * Follow everything of a place, or what has some types in the whole workspace, in the stream that a page has.
 *
 * `snapshot` reads the present. It is called once the stream is open, and again where the host has no longer what
 * follows the last cursor; events that come meanwhile are held back, so that `on` may get some that the present
 * has already. `failure` is what the host refuses with, or an exception of `on`. `stop` ends it.
 * @param {Live} live
 */
export function liveStream({ place, types = [], on, snapshot = async () => {} }) {
  const abort = new AbortController(), wanted = new Set(/** @type {string[]} */ (types));
  const connected = signal(true);
  const failure = signal(/** @type {Error | null} */ (null));
  let reading = false, again = false;
  /** @type {StreamEvent[]} */
  let held = [];

  /** Read the present, however long that takes, and then let the events through that were held back. */
  async function read() {
    again = true;
    if (reading || abort.signal.aborted) return;
    reading = true;
    while ((again || held.length) && !abort.signal.aborted) {
      if (!again) {
        await giveHeld();
        continue;
      }
      again = false;
      try {
        await snapshot(abort.signal);
      } catch (error) {
        if (abort.signal.aborted) return;
        if (!isPassing(error)) return fail(error);
        again = true;
        await sleep(RETRY_MS, abort.signal);
      }
    }
    reading = false;
  }

  /** Give what was held back, and what comes meanwhile, unless the present has to be read again. */
  async function giveHeld() {
    const turn = new Turn();
    let given = 0;
    while (given < held.length && !again && !abort.signal.aborted) {
      give(held[given++]);
      if (turn.over()) await turn.next();
    }
    held.splice(0, given);
  }

  /** @param {StreamEvent} event */
  function take(event) {
    const fits = place ? isOf(place, event) : wanted.has(event.event);
    if (!fits || abort.signal.aborted) return;
    if (reading) held.push(event);
    else give(event);
  }

  /** @param {StreamEvent} event */
  function give(event) {
    try {
      if (!abort.signal.aborted) on(event);
    } catch (error) {
      fail(error); // the page shows it
    }
  }

  /** @param {unknown} error */
  function fail(error) {
    failure.value = error instanceof Error ? error : new Error(String(error));
    stop();
  }

  const leave = join({ place: place ?? null, begin: read, take, fail, up: (up) => (connected.value = up) });
  function stop() {
    abort.abort();
    leave();
  }
  return { connected, failure, read, stop };
}

/** Whether an event is of a place. Results name only their run: those of other places do not come. @param {Place} place @param {StreamEvent} event */
function isOf(place, { data }) {
  const elsewhere = (/** @type {"conversation_id" | "agent"} */ name) => place[name] !== undefined && data?.[name] !== undefined && data[name] !== place[name];
  return !elsewhere("conversation_id") && !elsewhere("agent");
}
