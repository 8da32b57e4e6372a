// What differs between two lists or texts: pure, and bounded in time however long they are.

const MAX_CELLS = 4_000_000;
const AHEAD = 60;
const MAX_WORDS = 600;

/**
 * Pair the items of two lists in their order: `[place in a, place in b]`, -1 where one has none. Long lists that
 * differ a lot are paired by what follows within AHEAD items, so that an inserted one does not shift the rest.
 * @template T @param {T[]} a @param {T[]} b @param {(one: T, other: T) => boolean} [same]
 * @returns {[number, number][]}
 */
export function align(a, b, same = (one, other) => one === other) {
  let start = 0, endA = a.length, endB = b.length;
  while (start < endA && start < endB && same(a[start], b[start])) start++;
  while (endA > start && endB > start && same(a[endA - 1], b[endB - 1])) endA--, endB--;
  /** @type {[number, number][]} */
  const found = [];
  for (let at = 0; at < start; at++) found.push([at, at]);
  const between = (endA - start) * (endB - start) <= MAX_CELLS ? longest : nearby;
  found.push(...between(a, b, start, endA, endB, same));
  for (let at = endA; at < a.length; at++) found.push([at, at - endA + endB]);
  return found;
}

/**
 * By the longest common subsequence.
 * @template T @param {T[]} a @param {T[]} b @param {number} start @param {number} endA @param {number} endB
 * @param {(one: T, other: T) => boolean} same
 */
function longest(a, b, start, endA, endB, same) {
  const rows = endA - start, columns = endB - start, width = columns + 1;
  const lengths = new Uint16Array((rows + 1) * width);
  for (let i = rows - 1; i >= 0; i--) {
    for (let j = columns - 1; j >= 0; j--) {
      lengths[i * width + j] = same(a[start + i], b[start + j])
        ? lengths[(i + 1) * width + j + 1] + 1
        : Math.max(lengths[(i + 1) * width + j], lengths[i * width + j + 1]);
    }
  }
  /** @type {[number, number][]} */
  const found = [];
  let i = 0, j = 0;
  while (i < rows || j < columns) {
    if (i < rows && j < columns && same(a[start + i], b[start + j])) found.push([start + i++, start + j++]);
    else if (j === columns || (i < rows && lengths[(i + 1) * width + j] >= lengths[i * width + j + 1])) found.push([start + i++, -1]);
    else found.push([-1, start + j++]);
  }
  return found;
}

/**
 * By the nearest item that both have.
 * @template T @param {T[]} a @param {T[]} b @param {number} start @param {number} endA @param {number} endB
 * @param {(one: T, other: T) => boolean} same
 */
function nearby(a, b, start, endA, endB, same) {
  /** @type {[number, number][]} */
  const found = [];
  let i = start, j = start;
  while (i < endA || j < endB) {
    const [skipA, skipB] = i < endA && j < endB ? next(a, b, i, j, endA, endB, same) : [endA - i, endB - j];
    for (let step = 0; step < skipA; step++) found.push([i++, -1]);
    for (let step = 0; step < skipB; step++) found.push([-1, j++]);
    if (i < endA && j < endB && same(a[i], b[j])) found.push([i++, j++]);
  }
  return found;
}

/**
 * How many items of each list to skip until both go on with the same one.
 * @template T @param {T[]} a @param {T[]} b @param {number} i @param {number} j @param {number} endA @param {number} endB
 * @param {(one: T, other: T) => boolean} same @returns {[number, number]}
 */
function next(a, b, i, j, endA, endB, same) {
  for (let sum = 0; sum <= AHEAD; sum++) {
    for (let skip = 0; skip <= sum; skip++) {
      if (i + skip < endA && j + sum - skip < endB && same(a[i + skip], b[j + sum - skip])) return [skip, sum - skip];
    }
  }
  return [1, 1];
}

/**
 * @typedef {{kind: "same" | "changed" | "gone" | "new", left: string | null, right: string | null,
 *   leftNumber: number, rightNumber: number}} Line
 */

/** The lines of two texts, beside each other. @param {string} before @param {string} after @returns {Line[]} */
export function lines(before, after) {
  const a = before.split("\n"), b = after.split("\n");
  /** @type {Line[]} */
  const found = [];
  /** @type {number[]} */
  let gone = [];
  /** @type {number[]} */
  let added = [];
  const flush = () => {
    for (let at = 0; at < Math.max(gone.length, added.length); at++) {
      const left = gone[at], right = added[at];
      const kind = left === undefined ? "new" : right === undefined ? "gone" : "changed";
      found.push({ kind, left: left === undefined ? null : a[left], right: right === undefined ? null : b[right], leftNumber: (left ?? -1) + 1, rightNumber: (right ?? -1) + 1 });
    }
    gone = [], added = [];
  };
  for (const [left, right] of align(a, b)) {
    if (left >= 0 && right >= 0) {
      flush();
      found.push({ kind: "same", left: a[left], right: b[right], leftNumber: left + 1, rightNumber: right + 1 });
    } else if (left >= 0) gone.push(left);
    else added.push(right);
  }
  flush();
  return found;
}

/**
 * A changed line in pieces, by words: `[text, differs]` of each side.
 * @param {string} before @param {string} after @returns {[[string, boolean][], [string, boolean][]]}
 */
export function words(before, after) {
  const a = before.match(/[\p{L}\p{N}_]+|\s+|./gu) ?? [], b = after.match(/[\p{L}\p{N}_]+|\s+|./gu) ?? [];
  if (a.length > MAX_WORDS || b.length > MAX_WORDS) return [[[before, true]], [[after, true]]];
  /** @type {[string, boolean][]} */
  const left = [];
  /** @type {[string, boolean][]} */
  const right = [];
  for (const [one, other] of align(a, b)) {
    if (one >= 0) put(left, a[one], other < 0);
    if (other >= 0) put(right, b[other], one < 0);
  }
  return [left, right];
}

/** @param {[string, boolean][]} pieces @param {string} text @param {boolean} differs */
function put(pieces, text, differs) {
  const last = pieces.at(-1);
  if (last && last[1] === differs) last[0] += text;
  else pieces.push([text, differs]);
}

/** A value as text whose lines can be compared: texts as they are, else JSON with sorted names. @param {any} value */
export function comparable(value) {
  if (value === undefined) return "";
  if (typeof value === "string") return value;
  return JSON.stringify(value, (_, inner) =>
    inner && typeof inner === "object" && !Array.isArray(inner)
      ? Object.fromEntries(Object.entries(inner).sort(([one], [other]) => (one < other ? -1 : 1)))
      : inner, 2);
}
