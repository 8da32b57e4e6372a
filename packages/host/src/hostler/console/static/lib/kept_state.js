// State of a component that this tab keeps over a reload. No secrets.
import { useCallback, useState } from "./html.js";
import { keep, kept } from "./kept.js";

/**
 * State that a reload keeps. Undefined removes it.
 * @template T @param {string} name @param {T} first
 * @returns {[T, (value: T | undefined) => void]}
 */
export function useKept(name, first) {
  const [value, setValue] = useState(() => kept(name) ?? first);
  const set = useCallback((/** @type {T | undefined} */ next) => {
    setValue(() => (next === undefined ? first : next));
    keep(name, next);
  }, [name]);
  return [value, set];
}
