// Where the words of a search are in a passage: pure. Words are marked whole; in scripts without blanks, neighbouring
// characters are what the host looks for.

const WORD = /[\p{L}\p{N}\p{M}_]+/gu;
const UNSPACED = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}]/u;
const MOST_TERMS = 64;

/** @param {string} term */
const quoted = (term) => term.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&");

/** Patterns of what is looked for, longest first. @param {string} query @returns {string[]} */
function patternsOf(query) {
  const found = new Set(/** @type {string[]} */ ([]));
  for (const [word] of query.matchAll(WORD)) {
    const chars = [...word].map(quoted);
    if (!UNSPACED.test(word)) found.add(`(?<![\\p{L}\\p{N}_])${quoted(word)}(?![\\p{L}\\p{N}_])`);
    else if (chars.length < 2) found.add(chars[0]);
    // pairs overlap, so each of both is found by the other beside it
    else for (let at = 1; at < chars.length; at++) found.add(`${chars[at - 1]}(?=${chars[at]})|(?<=${chars[at - 1]})${chars[at]}`);
  }
  return [...found].slice(0, MOST_TERMS).sort((a, b) => b.length - a.length);
}

/**
 * A text in pieces, each with whether it is of the query.
 * @param {string} text @param {string} query @returns {{text: string, found: boolean}[]}
 */
export function highlighted(text, query) {
  const patterns = patternsOf(query);
  if (!patterns.length) return [{ text, found: false }];
  const pieces = [];
  let end = 0;
  for (const match of text.matchAll(new RegExp(patterns.join("|"), "giu"))) {
    const last = pieces.at(-1);
    if (last?.found && end === match.index) last.text += match[0]; // characters that follow each other are one mark
    else {
      if (match.index > end) pieces.push({ text: text.slice(end, match.index), found: false });
      pieces.push({ text: match[0], found: true });
    }
    end = match.index + match[0].length;
  }
  if (end < text.length) pieces.push({ text: text.slice(end), found: false });
  return pieces;
}
