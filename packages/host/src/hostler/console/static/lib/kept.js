// What somebody has typed, kept for a reload of this tab, and for this person alone. Nothing secret belongs here.
import { owner } from "./session.js";

/** @param {string} name */
const keyOf = (name) => `hostler-typed ${owner()} ${name}`;
const MOST_CHARS = 200_000;

/** @param {string} name @returns {any} undefined if there is none */
export function kept(name) {
  try {
    const found = sessionStorage.getItem(keyOf(name));
    return found === null ? undefined : JSON.parse(found);
  } catch {
    return undefined;
  }
}

/** @param {string} name @param {any} value undefined forgets it */
export function keep(name, value) {
  const text = value === undefined ? undefined : JSON.stringify(value);
  try {
    if (text === undefined || text.length > MOST_CHARS) sessionStorage.removeItem(keyOf(name));
    else sessionStorage.setItem(keyOf(name), text);
  } catch {
    // a full or closed storage keeps nothing; what is on the page stays
  }
}
