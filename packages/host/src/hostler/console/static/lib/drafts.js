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
}
