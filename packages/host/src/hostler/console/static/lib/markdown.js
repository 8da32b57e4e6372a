// Markdown of models and people as HTML that can do nothing.
import DOMPurify from "../vendor/dompurify.js";
import { Lexer, Marked } from "../vendor/marked.js";
import { html, useMemo } from "./html.js";
import { MAX_CHARS } from "./markdown_loaded.js";
import { Value } from "../components/json.js";

const marked = new Marked({ gfm: true, breaks: true });
const ALLOWED = {
  ALLOWED_TAGS: [
    "a", "b", "blockquote", "br", "code", "del", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "i", "li", "ol", "p",
    "pre", "s", "strong", "sub", "sup", "table", "tbody", "td", "th", "thead", "tr", "ul",
  ],
  ALLOWED_ATTR: ["href", "title", "align", "start"],
  ALLOWED_URI_REGEXP: /^(?:https?|mailto):/i,
  RETURN_TRUSTED_TYPE: true,
};

// links leave the console in a tab of their own, and pictures of other hosts are not fetched at all
DOMPurify.addHook("afterSanitizeAttributes", (node) => {
  if (node.tagName !== "A") return;
  if (!node.hasAttribute("href")) return node.replaceWith(...node.childNodes);
  node.setAttribute("target", "_blank");
  node.setAttribute("rel", "noopener noreferrer nofollow");
});

/** The top-level parts of a text, without a look into them. @param {string} text @returns {any[]} */
export const lex = (text) => marked.lexer(text);

/** How much of a text is looked at in one go. */
const PIECE = 2_000;

/**
 * The same for a long text, in pieces: between them others can have their turn.
 * @param {string} text @returns {Generator<void, any[]>}
 */
export function* lexing(text) {
  const lexer = new Lexer(marked.defaults);
  for (const piece of piecesOf(text.replace(/\r\n|\r/g, "\n"))) {
    lexer.blockTokens(piece, lexer.tokens);
    yield;
  }
  let looked = 0;
  for (const { src, tokens } of lexer.inlineQueue) {
    lexer.inlineTokens(src, tokens);
    looked += src.length;
    if (looked < PIECE) continue;
    looked = 0;
    yield;
  }
  return lexer.tokens;
}

/**
 * A text cut between its top-level parts. The last part of what was looked at may go on: it is looked at again with more.
 * @param {string} text @returns {Generator<string>}
 */
function* piecesOf(text) {
  let from = 0;
  for (let size = PIECE; ; ) {
    const to = text.indexOf("\n", from + size - 1) + 1;
    if (to === 0 || to === text.length) break;
    const tokens = new Lexer(marked.defaults).blockTokens(text.slice(from, to));
    const ended = tokens.slice(0, Math.max(0, tokens.findLastIndex((token) => token.type !== "space")));
    const length = ended.reduce((sum, token) => sum + token.raw.length, 0);
    size = length ? PIECE : 2 * size;
    if (length) yield text.slice(from, from + length);
    from += length;
  }
  yield text.slice(from);
}

/** Some of those parts as HTML. @param {any[]} tokens */
export const tokensToHtml = (tokens) => DOMPurify.sanitize(marked.parser(tokens), ALLOWED);
/** @param {string} text */
export const toHtml = (text) => DOMPurify.sanitize(/** @type {string} */ (marked.parse(text)), ALLOWED);

/** @param {{text: string}} props */
export function Markdown({ text }) {
  const shown = useMemo(() => (text.length > MAX_CHARS ? null : toHtml(text)), [text]);
  if (shown === null) return html`<${Value} value=${text} />`;
  return html`<div class="markdown" dir="auto" dangerouslySetInnerHTML=${{ __html: shown }} />`;
}
