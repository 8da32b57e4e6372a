// Markdown as a list of blocks, so that a text that grows changes only its last one.
import { signal } from "./html.js";
import { MAX_CHARS, loadMarkdown, markdown } from "./markdown_loaded.js";
import { inTurn } from "./turns.js";

/**
 * @typedef {{kind: "html" | "code" | "plain", raw: string, tokens?: any[], lang?: string, html?: any}} Block
 * `raw` is the text of a block: blocks of one kind and text look the same. Of code it is the code alone. `html`: once it was shown.
 */

/** The longest list that is looked at again with each piece; its earlier items are blocks of their own then. */
const MAX_LIST = 2_500;
/** The same for any other block. What is longer is shown as plain text until the message is complete. */
const MAX_OPEN = 8_000;
const MAX_LINE = 8_000;
/** A code block is one text node for each so many characters: only the last one changes. */
export const CODE_PIECE = 4_000;
/** A whole text of so many characters is looked at in one go; a longer one in pieces. */
const AT_ONCE = 4_000;
/** Texts whose blocks are kept, for when they are shown again. */
const MOST_KEPT = 200;

/** @param {any} token @returns {Block} */
function blockOf(token) {
  if (token.type === "code") return { kind: "code", raw: token.text, lang: token.lang ?? "" };
  return { kind: "html", raw: token.raw.trimEnd(), tokens: [token] };
}

/** Blocks that show something. @param {any[]} tokens */
const shown = (tokens) => tokens.filter((token) => token.type !== "space" && token.type !== "def");

/** Whether looking for Markdown would take too long, or make no sense. @param {string} text */
const isPlain = (text) => text.length > MAX_CHARS || text.split("\n").some((line) => line.length > MAX_LINE);

/** @param {string} text */
const lex = (text) => /** @type {import("./markdown_loaded.js").Libraries} */ (markdown.peek()).lex(text);

/** A text in pieces, as it was written. @param {string} text @returns {Block[]} */
function plain(text) {
  /** @type {Block[]} */
  const pieces = [];
  for (let from = 0; from < text.length; from += CODE_PIECE) pieces.push({ kind: "plain", raw: text.slice(from, from + CODE_PIECE) });
  return pieces;
}

/** The newest at the end. @type {Map<string, ReturnType<typeof look>>} */
const known = new Map();

/**
 * The blocks of a whole text; null until a long one was looked at. Until the libraries are there it is as it was written.
 * @param {string} text @returns {Block[] | null}
 */
export function blocksOf(text) {
  const libraries = markdown.value;
  if (!text) return [];
  if (!libraries) {
    loadMarkdown();
    return plain(text);
  }
  const found = known.get(text) ?? look(text, libraries);
  known.delete(text);
  known.set(text, found);
  for (const oldest of known.keys()) {
    if (known.size <= MOST_KEPT) break;
    known.delete(oldest);
  }
  return found.value;
}

/** @param {string} text @param {import("./markdown_loaded.js").Libraries} libraries */
function look(text, libraries) {
  const found = signal(/** @type {Block[] | null} */ (null));
  if (isPlain(text)) found.value = plain(text);
  else if (text.length <= AT_ONCE) found.value = shown(libraries.lex(text)).map(blockOf);
  else {
    const pieces = libraries.lexing(text);
    const next = () => {
      const piece = pieces.next();
      if (piece.done) found.value = shown(piece.value).map(blockOf);
      else inTurn(next);
    };
    inTurn(next);
  }
  return found;
}

/** A text that comes in pieces. `closed` blocks change no more; `tail` are the others. */
export class GrowingMarkdown {
  constructor() {
    /** @type {Block[]} */
    this.closed = [];
    /** @type {Block[]} */
    this.tail = [];
    this.length = 0;
    this._open = "";
    /** @type {{end: RegExp, lang: string, looked: number} | null} within a code block */
    this._fence = null;
    this._plain = false;
    /** How many characters of whole lines were looked at. */
    this._looked = 0;
  }

  /** @param {string} text */
  append(text) {
    this._open += text;
    this.length += text.length;
  }

  /** Look at what was appended. Once for each frame. */
  settle() {
    this.closed = [...this.closed];
    if (!markdown.peek()) return void (this.tail = plain(this._open));
    for (let again = true; again; ) again = this._plain ? this._settlePlain() : this._fence ? this._settleCode() : this._settleBlocks();
  }

  /** Blocks are closed by whole lines alone: a line that grows may be anything. @returns {boolean} whether there is more to look at */
  _settleBlocks() {
    const lines = this._open.lastIndexOf("\n") + 1;
    if (this._open.length - lines > MAX_LINE) return (this._plain = true);
    if (lines > this._looked) {
      this._looked = lines;
      if (this._closeLines(this._open.slice(0, lines))) return true;
    }
    if (this._open.length > MAX_OPEN) return (this._plain = true);
    this.tail = shown(lex(this._open)).map(blockOf);
    return false;
  }

  /** @param {string} text @returns {boolean} whether a block was closed in the middle */
  _closeLines(text) {
    const tokens = lex(text), last = tokens.findLastIndex((token) => token.type !== "space");
    if (last < 0) return false;
    this.closed.push(...shown(tokens.slice(0, last)).map(blockOf));
    const token = tokens[last];
    const rest = tokens.slice(last).reduce((/** @type {number} */ sum, /** @type {any} */ one) => sum + one.raw.length, 0);
    this._take(text.length - rest);
    const fence = token.type === "code" && /^ {0,3}(`{3,}|~{3,})[^\n]*\n/.exec(token.raw);
    if (fence) {
      this._take(fence[0].length);
      this._fence = { end: new RegExp(`^ {0,3}${fence[1][0]}{${fence[1].length},}[ \\t]*(?:\\n|$)`, "m"), lang: token.lang ?? "", looked: 0 };
      return true;
    }
    if (rest <= MAX_LIST || token.type !== "list" || token.items.length < 2) return false;
    const kept = token.items.at(-1).raw.length;
    const raw = token.raw.slice(0, -kept);
    this.closed.push(blockOf({ ...token, items: token.items.slice(0, -1), raw }));
    this._take(raw.length);
    return true;
  }

  /** @param {number} length */
  _take(length) {
    this._open = this._open.slice(length);
    this._looked = 0;
  }

  _settleCode() {
    const fence = /** @type {NonNullable<typeof this._fence>} */ (this._fence);
    const from = this._open.lastIndexOf("\n", fence.looked - 1) + 1;
    const found = fence.end.exec(this._open.slice(from));
    // at the very end a line of backticks may still become longer: it ends the block when its line ends
    if (found && found[0].endsWith("\n")) {
      this.closed.push({ kind: "code", raw: this._open.slice(0, Math.max(0, from + found.index - 1)), lang: fence.lang });
      this._take(from + found.index + found[0].length);
      this._fence = null;
      return true;
    }
    fence.looked = this._open.length;
    const text = found ? this._open.slice(0, Math.max(0, from + found.index - 1)) : this._open;
    this.tail = [{ kind: "code", raw: text, lang: fence.lang }];
    return false;
  }

  /** Text that cannot be divided: it is Markdown again after an empty line. */
  _settlePlain() {
    const end = this._open.indexOf("\n\n");
    while ((end < 0 ? this._open.length : end) > CODE_PIECE && this._open.length > CODE_PIECE) {
      const piece = this._open.slice(0, end < 0 ? CODE_PIECE : Math.min(end, CODE_PIECE));
      this.closed.push({ kind: "plain", raw: piece });
      this._open = this._open.slice(piece.length);
      if (end >= 0) break;
    }
    if (end >= 0) {
      this._plain = !this._open.startsWith("\n\n");
      if (!this._plain) this._take(2);
      return true;
    }
    this.tail = this._open ? [{ kind: "plain", raw: this._open }] : [];
    return false;
  }
}
