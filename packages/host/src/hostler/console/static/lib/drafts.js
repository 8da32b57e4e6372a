<<<<<<< HEAD
// What was typed and not sent: kept for a reload, for each conversation.

/** @typedef {{text: string, files: import("./uploads.js").Artifact[]}} Draft */

const MOST = 50;
const PREFIX = "hostler-draft ";

/** @param {string} name @returns {Draft} */
export function draftOf(name) {
  try {
    return JSON.parse(sessionStorage.getItem(PREFIX + name) ?? "null") ?? { text: "", files: [] };
  } catch {
    return { text: "", files: [] };
  }
}

/** @param {string} name @param {Draft} draft */
export function keepDraft(name, draft) {
  if (!draft.text && !draft.files.length) return sessionStorage.removeItem(PREFIX + name);
  const kept = Object.keys(sessionStorage).filter((key) => key.startsWith(PREFIX));
  if (kept.length >= MOST && !kept.includes(PREFIX + name)) sessionStorage.removeItem(kept[0]);
  try {
    sessionStorage.setItem(PREFIX + name, JSON.stringify(draft));
  } catch {
    // it is longer than the browser keeps
  }
=======
// What is typed and not sent yet: kept in this tab over a reload. No secrets.
import { useCallback, useState } from "./html.js";

const PREFIX = "hostler-draft ";
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
export function useDraft(name, first) {
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
>>>>>>> 714a6e97f7 (Console: what waits for a person, with its decision, and dialogs; lists of pauses in several states, and who may decide)
}
