// Values of calls as exactly as people need them who decide: every name, and what is invisible made visible.
import { html, useState } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { seenPieces } from "../lib/seen_text.js";

const SHOWN_CHARS = 3000;
const MOST_NAMES = 200;

/** A text, with a mark for each character that a reader would not see. @param {{text: string}} props */
export function Exact({ text }) {
  const [whole, setWhole] = useState(false);
  const cut = !whole && text.length > SHOWN_CHARS;
  const pieces = seenPieces(cut ? text.slice(0, SHOWN_CHARS) : text);
  return html`<span class="exact" dir="auto">${pieces.map((piece, place) => (place % 2 ? html`<mark class="unseen" title=${t("exact.unseen")}>${piece}</mark>` : piece))}</span>
    ${cut && html`<button type="button" class="link" onClick=${() => setWhole(true)}>${t("value.more", { count: text.length - SHOWN_CHARS })}</button>`}`;
}

/** @param {{value: any}} props */
const One = ({ value }) =>
  typeof value === "string"
    ? html`<${Exact} text=${value} />`
    : html`<code class="exact-code"><${Exact} text=${JSON.stringify(value, null, 2) ?? ""} /></code>`;

/** Arguments by name. `locked`: those that nobody may change. @param {{args: Record<string, any>, locked?: string[]}} props */
export function Arguments({ args, locked = [] }) {
  const names = Object.keys(args);
  if (!names.length) return html`<p class="dim">${t("exact.no_arguments")}</p>`;
  return html`<dl class="arguments" tabindex="0">
    ${names.slice(0, MOST_NAMES).map((name) => html`<div key=${name}>
      <dt><${Exact} text=${name} />${locked.includes(name) && html` <span class="dim">${t("decision.locked")}</span>`}</dt>
      <dd><${One} value=${args[name]} /></dd>
    </div>`)}
    ${names.length > MOST_NAMES && html`<div><dt></dt><dd><${One} value=${Object.fromEntries(names.slice(MOST_NAMES).map((name) => [name, args[name]]))} /></dd></div>`}
  </dl>`;
}
