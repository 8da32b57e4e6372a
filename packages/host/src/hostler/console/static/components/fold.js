// A part of a page that is folded away until it is wanted.
import { html, useEffect, useState } from "../lib/html.js";

/** `open`: opens it; it stays open until the reader folds it. @param {{title: any, open?: boolean, card?: boolean, children?: any}} props */
export function Fold({ title, open = false, card = false, children }) {
  const [shown, setShown] = useState(open);
  useEffect(() => {
    if (open) setShown(true);
  }, [open]);
  return html`<details class=${card ? "card fold" : "fold"} open=${shown} onToggle=${(/** @type {any} */ event) => setShown(event.target.open)}>
    <summary>${title}</summary>${children}
  </details>`;
}
