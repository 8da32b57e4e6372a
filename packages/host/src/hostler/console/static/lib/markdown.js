// Markdown of models and people as HTML that can do nothing.
import DOMPurify from "../vendor/dompurify.js";
import { Marked } from "../vendor/marked.js";
import { html, useMemo } from "./html.js";
import { Value } from "../components/json.js";

export const MAX_CHARS = 200_000;
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
