// A plugin's log as it grows: read again every second while the page is looked at, bounded.
import { get, path } from "./api.js";
import { polled } from "./polled.js";

/** @typedef {{number: number, text: string}} Line `number` counts from the first one that was read. */
/** @typedef {{lines: Line[], skipped: boolean}} Log `skipped`: lines before these are not shown. */

export const MOST_LINES = 2000;
const MOST_CHARS = 4000;
const EVERY_SECONDS = 1;
const AT_ONCE = 1000;

/** @param {string} plugin */
export function liveLog(plugin) {
  let next = "", count = 0, skipped = false;
  /** @type {Line[]} */
  let lines = [];
  return polled(async (abort) => {
    const page = await get(path("plugins", plugin, "logs"), { lines: AT_ONCE, after: next }, abort);
    next = page.next;
    skipped ||= page.skipped || lines.length + page.lines.length > MOST_LINES;
    if (page.lines.length) {
      const fresh = page.lines.map((/** @type {string} */ text) => ({ number: ++count, text: text.length > MOST_CHARS ? `${text.slice(0, MOST_CHARS)}…` : text }));
      lines = [...lines, ...fresh].slice(-MOST_LINES);
    }
    return { lines, skipped };
  }, EVERY_SECONDS);
}
