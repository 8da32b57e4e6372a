// Markdown block by block: a block whose text is the same is not touched again.
import { Component, html } from "../lib/html.js";
import { tokensToHtml } from "../lib/markdown.js";
import { CODE_PIECE } from "../lib/markdown_blocks.js";
import { CopyButton } from "./copy_button.js";

/** @typedef {import("../lib/markdown_blocks.js").Block} Block */

/** How often a text was looked at, how many blocks were rendered then, and their characters: what tests look at. */
export const rendered = { looks: 0, blocks: 0, characters: 0 };

/** @extends {Component<{block: Block}>} */
class ShownBlock extends Component {
  /** @param {{block: Block}} next */
  shouldComponentUpdate({ block }) {
    return block.kind !== this.props.block.kind || block.raw !== this.props.block.raw || block.lang !== this.props.block.lang;
  }

  /** @param {{block: Block}} props */
  render({ block }) {
    rendered.blocks += 1;
    rendered.characters += Math.min(block.raw.length, block.kind === "html" ? Infinity : CODE_PIECE);
    if (block.kind === "code") return html`<${Code} text=${block.raw} lang=${block.lang ?? ""} />`;
    if (block.kind === "plain") return html`<span class="plain">${block.raw}</span>`;
    return html`<div class="block" dangerouslySetInnerHTML=${{ __html: tokensToHtml(block.tokens ?? []) }} />`;
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
  rendered.looks += 1;
  return html`<div class="markdown" dir="auto">${blocks.map((block, place) => html`<${ShownBlock} key=${place} block=${block} />`)}</div>`;
}
