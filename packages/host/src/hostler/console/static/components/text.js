// A text of others, as it is; the beginning of a long one.
import { html, useState } from "../lib/html.js";
import { t } from "../lib/i18n.js";

const SHOWN_CHARS = 4000;

/** @param {{text: string}} props */
export function Text({ text }) {
  const [whole, setWhole] = useState(false);
  const cut = !whole && text.length > SHOWN_CHARS;
  return html`<p class="verbatim" dir="auto">${cut ? text.slice(0, SHOWN_CHARS) : text}
    ${cut && html` <button onClick=${() => setWhole(true)}>${t("value.more", { count: text.length - SHOWN_CHARS })}</button>`}</p>`;
}
