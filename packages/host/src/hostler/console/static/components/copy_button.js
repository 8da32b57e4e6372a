// Puts a text on the clipboard.
import { html, useState } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { Icon } from "./icon.js";
import { notice } from "./notice.js";

const SHOWN_MS = 1500;

/** Throws where the browser does not copy. @param {string} text */
export async function copyText(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  // pages without TLS have no clipboard of their own
  const field = document.createElement("textarea");
  field.value = text;
  // beside an open dialog nothing can be selected
  (document.querySelector("dialog[open]") ?? document.body).append(field);
  field.select();
  const copied = document.execCommand("copy");
  field.remove();
  if (!copied) throw new Error("the browser does not copy");
}

/** @param {{text: string | (() => string), label?: string}} props */
export function CopyButton({ text, label }) {
  const [done, setDone] = useState(false);
  const copy = () =>
    copyText(typeof text === "string" ? text : text()).then(() => {
      setDone(true);
      setTimeout(() => setDone(false), SHOWN_MS);
    }, () => notice(t("copy.failed"), true));
  const name = done ? t("copy.done") : label ?? t("copy.do");
  return html`<button type="button" class=${done ? "quiet copied" : "quiet"} aria-label=${name} title=${name} onClick=${copy}><${Icon} name=${done ? "check" : "copy"} /></button>`;
}
