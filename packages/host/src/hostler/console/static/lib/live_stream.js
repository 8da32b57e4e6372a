// The present of something, read once, and what happens to it from then on: nothing is missing, nothing comes twice.
import { signal } from "./html.js";
import { Problem, Unreachable, follow, sleep } from "./api.js";

/**
 * @typedef {import("./api.js").StreamEvent} StreamEvent
 * @typedef {{query?: Record<string, any>, on: (event: StreamEvent) => void, snapshot?: (signal: AbortSignal) => Promise<void>}} Live
 */

/** A tab that nobody looks at lets its connection go after so long: a browser has six of them for all its tabs. */
const HIDDEN_MS = 10_000;
const RETRY_MS = 1000;

/**
 * Follow a stream that never ends (`/v1/stream`, `/v1/conversations/{id}/stream`).
 *
 * `snapshot` reads the present. It is called once the stream is open, and again where the host has no longer what
 * follows the last cursor; events that come meanwhile are held back, so that `on` may get some that the present
 * has already. `failure` is what the host refuses with. `stop` ends it.
 * @param {string} to @param {Live} live
 */
export function liveStream(to, { query, on, snapshot = async () => {} }) {
  const abort = new AbortController();
  const connected = signal(true);
  const failure = signal(/** @type {Error | null} */ (null));
  let cursor = "", reading = false, again = false;
  /** @type {StreamEvent[]} */
  let held = [];

  /** Read the present, however long that takes, and then let the events through that were held back. */
  async function read() {
    again = true;
    if (reading) return;
    reading = true;
    while (again && !abort.signal.aborted) {
      again = false;
      try {
        await snapshot(abort.signal);
      } catch (error) {
        if (abort.signal.aborted) return;
        if (!(error instanceof Unreachable)) return void fail(error);
        again = true;
        await sleep(RETRY_MS, abort.signal);
      }
    }
    reading = false;
    const waiting = held;
    held = [];
    for (const event of waiting) on(event);
  }

  /** @param {unknown} error */
  function fail(error) {
    failure.value = error instanceof Error ? error : new Error(String(error));
    abort.abort();
  }

  /** @param {AbortSignal} until */
  async function run(until) {
    while (!until.aborted) {
      try {
        await follow(to, {
          query, after: cursor, signal: until,
          on: (event) => void (reading ? held.push(event) : on(event)),
          reached: (place) => (cursor = place),
          state: (up) => {
            connected.value = up;
            if (up && !cursor) read();
          },
        });
      } catch (error) {
        if (!(error instanceof Problem) || error.status !== 410) return fail(error);
        cursor = "";
      }
    }
  }

  let current = new AbortController(), timer = 0;
  const begin = () => {
    current = new AbortController();
    run(AbortSignal.any([abort.signal, current.signal]));
  };
  const look = () => {
    clearTimeout(timer);
    if (document.hidden) timer = window.setTimeout(() => current.abort(), HIDDEN_MS);
    else if (current.signal.aborted && !abort.signal.aborted) begin();
  };
  document.addEventListener("visibilitychange", look, { signal: abort.signal });
  if (document.hidden) {
    current.abort(); // opened behind another tab: it begins when it is looked at
    read();
  } else begin();
  return { connected, failure, read, stop: () => (clearTimeout(timer), abort.abort()) };
}
