// A window over the page: the browser's own <dialog>, which keeps the focus inside and closes with Escape.
import { html, useLayoutEffect, useRef } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { Icon } from "./icon.js";

let count = 0;

/**
 * Shown for as long as it is rendered. `close` is called when the reader wants it gone: by Escape or the button. What
 * had the focus before has it again afterwards; the page's content, where that is gone too. `wide`: for what is compared or
 * written.
 * @param {{title: string, close: () => void, children?: any, wide?: boolean}} props
 */
export function Dialog({ title, close, children, wide = false }) {
  const element = useRef(/** @type {HTMLDialogElement | null} */ (null));
  const name = useRef("");
  name.current ||= `dialog-${++count}`;
  useLayoutEffect(() => {
    const shown = /** @type {HTMLDialogElement} */ (element.current);
    const before = document.activeElement;
    shown.showModal();
    return () => {
      shown.close();
      if (before instanceof HTMLElement && before.isConnected) before.focus();
      requestAnimationFrame(() => document.activeElement === document.body && document.getElementById("main")?.focus({ preventScroll: true }));
    };
  }, []);
  return html`
    <dialog
      ref=${element} class=${wide ? "dialog wide-dialog" : "dialog"} aria-labelledby=${name.current}
      onCancel=${(/** @type {Event} */ event) => {
        if (event.target !== element.current) return; // of a file input within
        event.preventDefault();
        close();
      }}
    >
      <header class="dialog-head">
        <h2 id=${name.current} class="grow" dir="auto">${title}</h2>
        <button type="button" class="quiet" aria-label=${t("state.close")} onClick=${close}><${Icon} name="close" /></button>
      </header>
      ${children}
    </dialog>
  `;
}
