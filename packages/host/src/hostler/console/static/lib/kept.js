// What somebody has typed, kept for a reload of this tab. Nothing secret belongs here.
const PREFIX = "hostler-typed ";
const MOST_CHARS = 200_000;

/** @param {string} name @returns {any} undefined if there is none */
export function kept(name) {
  try {
    const found = sessionStorage.getItem(PREFIX + name);
    return found === null ? undefined : JSON.parse(found);
  } catch {
    return undefined;
  }
}

/** @param {string} name @param {any} value undefined forgets it */
export function keep(name, value) {
  const text = value === undefined ? undefined : JSON.stringify(value);
  try {
    if (text === undefined || text.length > MOST_CHARS) sessionStorage.removeItem(PREFIX + name);
    else sessionStorage.setItem(PREFIX + name, text);
  } catch {
    // a full or closed storage keeps nothing; what is on the page stays
  }
}
