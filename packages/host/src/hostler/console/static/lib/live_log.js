// A plugin's log as it grows: read again every second while the page is looked at, bounded.
import { signal } from "./html.js";
import { Unreachable, get, path } from "./api.js";

/** @typedef {{number: number, text: string}} Line `number` counts from the first one that was read. */

export const MOST_LINES = 2000;
const MOST_CHARS = 4000;
const EVERY_MS = 1000;
const AT_ONCE = 1000;

/** @param {string} plugin */
export function liveLog(plugin) {
  const abort = new AbortController();
  const lines = signal(/** @type {Line[]} */ ([]));
  const state = signal(/** @type {{error: unknown, connected: boolean, read: boolean, skipped: boolean}} */ ({ error: null, connected: true, read: false, skipped: false }));
  let next = "", count = 0, timer = 0;

  async function look() {
    try {
      const page = await get(path("plugins", plugin, "logs"), { lines: AT_ONCE, after: next }, abort.signal);
      next = page.next;
      const skipped = state.value.skipped || page.skipped || lines.value.length + page.lines.length > MOST_LINES;
      if (page.lines.length) {
        const fresh = page.lines.map((/** @type {string} */ text) => ({ number: ++count, text: text.length > MOST_CHARS ? `${text.slice(0, MOST_CHARS)}…` : text }));
        lines.value = [...lines.value, ...fresh].slice(-MOST_LINES);
      }
      state.value = { error: null, connected: true, read: true, skipped };
    } catch (error) {
      if (abort.signal.aborted) return;
      const away = error instanceof Unreachable;
      state.value = { ...state.value, error: away ? null : error, connected: !away };
      if (!away) return; // a refusal stays one
    }
    if (!document.hidden) timer = window.setTimeout(look, EVERY_MS);
  }
  const shown = () => {
    clearTimeout(timer);
    if (!document.hidden) look();
  };
  document.addEventListener("visibilitychange", shown);
  look();
  const stop = () => {
    abort.abort();
    clearTimeout(timer);
    document.removeEventListener("visibilitychange", shown);
  };
  return { lines, state, stop, clear: () => (lines.value = []) };
}
