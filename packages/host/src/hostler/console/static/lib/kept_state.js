// State of a component that this tab keeps over a reload. No secrets.
import { useCallback, useState } from "./html.js";

const PREFIX = "hostler-kept ";
const MOST_CHARS = 100_000;

/** @param {string} name @returns {any} */
function kept(name) {
  try {
    return JSON.parse(sessionStorage.getItem(PREFIX + name) ?? "null");
  } catch {
    return null;
  }
}

/**
 * State that a reload keeps. Undefined removes it.
 * @template T @param {string} name @param {T} first
 * @returns {[T, (value: T | undefined) => void]}
 */
export function useKept(name, first) {
  const [value, setValue] = useState(() => kept(name) ?? first);
  const set = useCallback((/** @type {T | undefined} */ next) => {
    setValue(() => (next === undefined ? first : next));
    const text = next === undefined ? "" : JSON.stringify(next);
    try {
      if (next === undefined || text.length > MOST_CHARS) sessionStorage.removeItem(PREFIX + name);
      else sessionStorage.setItem(PREFIX + name, text);
    } catch {
      // there is no room: it is lost with the page
    }
  }, [name]);
  return [value, set];
}
