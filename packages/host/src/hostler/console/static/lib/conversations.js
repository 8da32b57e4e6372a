// The conversations of the workspace, latest first: read again every four seconds, and at once where one is open here.
import { signal } from "./html.js";
import { get } from "./api.js";

/** @typedef {{conversation_id: string, title: string | null, latest_at: number, latest_role: string, latest_content: string, waiting: boolean}} Summary */

const PAGE = 40;
const TOGETHER_MS = 400;
const POLL_MS = 4000;

/** Tells the other tabs of this browser that a title has changed. */
const tabs = new BroadcastChannel("hostler-conversations");
export const renamed = () => tabs.postMessage("renamed");

export function liveConversations() {
  const list = signal(/** @type {Summary[]} */ ([]));
  const state = signal(/** @type {"loading" | "ready" | Error} */ ("loading"));
  const more = signal(false);
  const abort = new AbortController();
  let cursor = "", timer = 0;

  /** Read the first page, and keep what was loaded after it unless `anew`. @param {boolean} [anew] */
  async function first(anew = false) {
    const page = await get("/v1/conversations", { limit: PAGE }, abort.signal);
    const fresh = new Set(page.items.map((/** @type {Summary} */ one) => one.conversation_id));
    const kept = anew || list.value.length <= PAGE ? [] : list.value.filter((one) => !fresh.has(one.conversation_id));
    if (!kept.length) {
      cursor = page.next_cursor ?? "";
      more.value = page.has_more;
    }
    list.value = [...page.items, ...kept];
    state.value = "ready";
  }

  async function next() {
    if (!cursor) return;
    const page = await get("/v1/conversations", { limit: PAGE, cursor }, abort.signal);
    const known = new Set(list.value.map((one) => one.conversation_id));
    list.value = [...list.value, ...page.items.filter((/** @type {Summary} */ one) => !known.has(one.conversation_id))];
    cursor = page.next_cursor ?? "";
    more.value = page.has_more;
  }

  let anew = false;
  /** @param {boolean} [whole] */
  const soon = (whole = false) => {
    anew ||= whole;
    timer ||= window.setTimeout(() => {
      timer = 0;
      first(anew).catch(() => {}); // it is read again soon
      anew = false;
    }, TOGETHER_MS);
  };

  // no stream of its own: a browser has six connections for all tabs of a host
  const look = () => document.hidden || first().then(() => undefined, (error) => void (abort.signal.aborted || list.value.length || (state.value = error)));
  tabs.addEventListener("message", () => soon(), { signal: abort.signal });
  document.addEventListener("visibilitychange", look, { signal: abort.signal });
  const poll = setInterval(look, POLL_MS);
  nudge = () => soon();
  look();
  return { list, state, more, next, again: () => soon(true), stop: () => (clearTimeout(timer), clearInterval(poll), abort.abort()) };
}

let nudge = () => {};
/** Something was said in a conversation that is open here. */
export const nudged = () => nudge();
