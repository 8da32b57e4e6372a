// A button that asks once more before it does what cannot be taken back.
import { html, useEffect, useRef, useState } from "../lib/html.js";
import { t } from "../lib/i18n.js";

/** @param {{label: string, question: string, act: () => Promise<any> | void, danger?: boolean, name?: string}} props */
export function Confirm({ label, question, act, danger = true, name }) {
  const [asking, setAsking] = useState(false), [busy, setBusy] = useState(false);
  const first = useRef(/** @type {HTMLButtonElement | null} */ (null)), opener = useRef(/** @type {HTMLButtonElement | null} */ (null));
  const before = useRef(false);
  useEffect(() => {
    if (asking) first.current?.focus();
    else if (before.current) opener.current?.focus();
    before.current = asking;
  }, [asking]);
  const run = async () => {
    setBusy(true);
    await act();
    setBusy(false);
    setAsking(false);
  };
  if (!asking) return html`<button ref=${opener} type="button" class=${danger ? "danger" : ""} aria-label=${name && `${label}: ${name}`} onClick=${() => setAsking(true)}>${label}</button>`;
  return html`
    <span class="confirm" role="group" aria-label=${question} onKeyDown=${(/** @type {KeyboardEvent} */ event) => event.key === "Escape" && setAsking(false)}>
      <span>${question}</span>
      <button ref=${first} type="button" class=${danger ? "danger" : "primary"} disabled=${busy} onClick=${run}>${label}</button>
      <button type="button" disabled=${busy} onClick=${() => setAsking(false)}>${t("confirm.no")}</button>
    </span>
  `;
}
