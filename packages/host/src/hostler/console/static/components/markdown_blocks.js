// Markdown block by block: a block whose text is the same is not touched again.
import { Component, html, useLayoutEffect, useState } from "../lib/html.js";
import { CODE_PIECE } from "../lib/markdown_blocks.js";
import { markdown } from "../lib/markdown_loaded.js";
import { inTurn } from "../lib/turns.js";
import { CopyButton } from "./copy_button.js";

/** @typedef {import("../lib/markdown_blocks.js").Block} Block */

/** How often a text was looked at, how many blocks were rendered then, at most at once, and their characters: what tests look at. */
export const rendered = { looks: 0, blocks: 0, most: 0, characters: 0 };
let before = 0;
/** So many blocks of a message are added at a time. */
const STEP = 8;

/** @extends {Component<{block: Block}>} */
class ShownBlock extends Component {
  /** @param {{block: Block}} next */
  shouldComponentUpdate({ block }) {
    return block.kind !== this.props.block.kind || block.raw !== this.props.block.raw || block.lang !== this.props.block.lang;
  }

  /** @param {{block: Block}} props */
  render({ block }) {
    rendered.blocks += 1;
    rendered.most = Math.max(rendered.most, rendered.blocks - before);
    rendered.characters += Math.min(block.raw.length, block.kind === "html" ? Infinity : CODE_PIECE);
    if (block.kind === "code") return html`<${Code} text=${block.raw} lang=${block.lang ?? ""} />`;
    if (block.kind === "plain") return html`<span class="plain">${block.raw}</span>`;
    block.html ??= markdown.peek()?.tokensToHtml(block.tokens ?? []);
    return html`<div class="block" dangerouslySetInnerHTML=${{ __html: block.html }} />`;
  }
}

/** @param {{text: string, lang: string}} props */
function Code({ text, lang }) {
  const pieces = [];
  for (let from = 0; from < text.length; from += CODE_PIECE) pieces.push(text.slice(from, from + CODE_PIECE));
  return html`
    <div class="code">
      <div class="code-head"><bdi class="dim">${lang.slice(0, 40)}</bdi><${CopyButton} text=${text} /></div>
      <pre tabindex="0" dir="ltr"><code>${pieces}</code></pre>
    </div>
  `;
}

/** @param {{blocks: Block[]}} props */
export function MarkdownBlocks({ blocks }) {
  const [most, setMost] = useState(STEP), more = blocks.length > most;
  useLayoutEffect(() => (more ? inTurn(() => setMost(most + STEP)) : undefined), [more, most]);
  rendered.looks += 1;
  before = rendered.blocks;
  return html`<div class="markdown" dir="auto">${blocks.slice(0, most).map((block, place) => html`<${ShownBlock} key=${place} block=${block} />`)}</div>`;
}
