// Where the reader was at each entry of the browser's history: Back and a reload show the same rows.
import { useLayoutEffect, useRef } from "./html.js";
import { keep, kept } from "./kept.js";

/**
 * @typedef {{top: number, link: string | null, list: any}} Place `top`: how far the page was scrolled. `link`: the address of the
 * link that had the focus. `list`: what the page's list needs to show the same rows.
 */

/** The last entries of the history that are kept. */
const MOST = 50;
/** A page that has not grown for so long does not become as high as it was. */
const GROWS_MS = 10_000;
const INPUTS = ["wheel", "touchstart", "pointerdown", "keydown"];

/** @type {Map<string, Place>} */
let places = new Map();
let entry = "";
/** Of the entry that the browser has come back to. @type {Place | null} */
let found = null;
/** Rows that are above those of `found` now, in pixels. */
let added = 0;
/** @type {(() => any) | null} */
let list = null;
let restoring = false, stop = () => {};

/** Begin with the entry of this page. */
export function beginPlaces() {
  history.scrollRestoration = "manual";
  places = new Map(kept("places") ?? []);
  addEventListener("pagehide", leave);
  arrive();
}

/** Keep the place of the entry that is shown, before another one is. */
export function leave() {
  if (restoring) return; // what was kept is better
  const link = document.activeElement?.closest("main a[href]")?.getAttribute("href") ?? null;
  places.delete(entry);
  if (scrollY > 0 || link) places.set(entry, { top: scrollY, link, list: list?.() ?? null });
  for (const old of places.keys()) if (places.size > MOST) places.delete(old);
  keep("places", [...places]);
}

/** Take up the place of the entry that the browser is at now, if there is one. @returns {Place | null} */
export function arrive() {
  entry = history.state?.entry ?? "";
  if (!entry) {
    entry = `${Date.now()} ${Math.random()}`;
    history.replaceState({ ...history.state, entry }, "");
  }
  forget();
  found = places.get(entry) ?? null;
  if (found?.top) restore(found.top);
  return found;
}

/** The page shows something else from now on: it has no place to go back to. */
export function forget() {
  stop();
  found = null;
  added = 0;
}

/** What the list of the page needs to show the same rows again; null where the browser has not come back to it. */
export const keptList = () => found?.list ?? null;

/** So many pixels of rows are above the kept place that were not there before. @param {number} pixels */
export const addAbove = (pixels) => void (added = pixels);

/** Scroll as far as the page was, once it is as high: its rows may still be read. The reader's input ends it. @param {number} top */
function restore(top) {
  let until = Date.now() + GROWS_MS;
  const look = () => {
    if (Date.now() > until) return stop();
    until = Date.now() + GROWS_MS;
    const wanted = top + added;
    scrollTo(0, wanted);
    if (document.documentElement.scrollHeight - innerHeight >= wanted && !document.querySelector("main .loading")) stop();
  };
  const grown = new ResizeObserver(look);
  stop = () => {
    grown.disconnect();
    for (const name of INPUTS) removeEventListener(name, stop);
    restoring = false;
    stop = () => {};
  };
  restoring = true;
  grown.observe(document.documentElement);
  for (const name of INPUTS) addEventListener(name, stop, { passive: true });
}

/** Have what a list needs to show the same rows kept when the reader leaves. @param {() => any} read */
export function usePlace(read) {
  const latest = useRef(read);
  latest.current = read;
  useLayoutEffect(() => {
    const own = () => latest.current();
    list = own;
    return () => void (list === own && (list = null));
  }, []);
}
