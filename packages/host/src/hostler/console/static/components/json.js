// A value as text that can be read: texts as they are, everything else as JSON.
import { html, useState } from "../lib/html.js";
import { t } from "../lib/i18n.js";

const SHOWN_CHARS = 4000;

/** @param {{value: any}} props */
export function Value({ value }) {
  const [whole, setWhole] = useState(false);
  const text = typeof value === "string" ? value : JSON.stringify(value, null, 2) ?? "";
  const cut = !whole && text.length > SHOWN_CHARS;
  return html`
    <pre class="value" dir="auto" tabindex="0">${cut ? text.slice(0, SHOWN_CHARS) : text}</pre>
    ${cut && html`<button onClick=${() => setWhole(true)}>${t("value.more", { count: text.length - SHOWN_CHARS })}</button>`}
  `;
}
