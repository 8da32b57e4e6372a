// Text of others with what is invisible in it made visible: who approves has to see what will happen.

/** As domain/unseen_text.py: control characters, and those that hide words from a reader or reverse them. */
const UNSEEN = /([\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\u{e0000}-\u{e007f}])/u;

/**
 * The text in pieces; the odd ones are unseen characters, as `U+202E`.
 * @param {string} text
 * @returns {string[]}
 */
export const seenPieces = (text) =>
  text.split(UNSEEN).map((piece, place) =>
    place % 2 ? `U+${/** @type {number} */ (piece.codePointAt(0)).toString(16).toUpperCase().padStart(4, "0")}` : piece);
