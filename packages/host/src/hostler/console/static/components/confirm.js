// Asks before something is done that cannot be undone.
import { html, useRef, useState } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { Dialog } from "./dialog.js";

/**
 * A dialog that asks. `confirm` may return a promise: until then it is not done again.
 * @param {{title: string, text?: string, action: string, confirm: () => any, close: () => void, danger?: boolean,
 *   children?: any}} props
 */
export function Confirm({ title, text, action, confirm, close, danger = true, children }) {
  const [working, run] = useOnce(confirm);
  return html`
    <${Dialog} title=${title} close=${close}>
      ${text && html`<p dir="auto">${text}</p>`}
      ${children}
      <div class="dialog-actions">
        <button type="button" onClick=${close}>${t("dialog.cancel")}</button>
        <button type="button" class=${danger ? "danger" : "primary"} disabled=${working} onClick=${run}>${action}</button>
      </div>
    </${Dialog}>
  `;
}

/**
 * A button that asks before it acts. `name`: of what it is about, where there are several such buttons.
 * @param {{label: string, question: string, act: () => Promise<any> | void, danger?: boolean, name?: string}} props
 */
export function ConfirmButton({ label, question, act, danger = true, name }) {
  const [asks, setAsks] = useState(false);
  const whole = name ? `${label}: ${name}` : label;
  const ask = (/** @type {any} */ event) => {
    event.currentTarget.focus(); // not every browser does on a click, and the dialog gives the focus back
    setAsks(true);
  };
  const run = async () => {
    await act();
    setAsks(false);
  };
  return html`
    <button type="button" class=${danger ? "danger" : ""} aria-label=${name && whole} onClick=${ask}>${label}</button>
    ${asks && html`<${Confirm} title=${whole} text=${question} action=${label} confirm=${run} close=${() => setAsks(false)} danger=${danger} />`}
  `;
}

/**
 * What a button does, once at a time: a second click may come before the button is disabled.
 * @param {() => any} act @returns {[boolean, () => Promise<void>]} whether it is being done, and how it is begun
 */
function useOnce(act) {
  const [working, setWorking] = useState(false), begun = useRef(false);
  return [
    working,
    async () => {
      if (begun.current) return;
      begun.current = true;
      setWorking(true);
      try {
        await act();
      } finally {
        begun.current = false;
        setWorking(false);
      }
    },
  ];
}
