// The beginning of a text of others, for a list: pure.

const BRIEF_CHARS = 400;

/** @param {string | null | undefined} text */
export const brief = (text) => (text && text.length > BRIEF_CHARS ? `${text.slice(0, BRIEF_CHARS)} …` : text);
