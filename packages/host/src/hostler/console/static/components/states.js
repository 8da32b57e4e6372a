// What a page shows while there is nothing else: it loads, has nothing, or failed.
import { html, useEffect, useState } from "../lib/html.js";
import { Problem, Unreachable } from "../lib/api.js";
import { t } from "../lib/i18n.js";

const QUIET_MS = 200;

/** Shown only after a moment: most answers are faster, and nothing should flicker. */
export function Loading() {
  const [shown, setShown] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setShown(true), QUIET_MS);
    return () => clearTimeout(timer);
  }, []);
  return html`<p class="loading" role="status">${shown ? t("state.loading") : ""}</p>`;
}

/** @param {{title: string, text?: string, children?: any}} props */
export const Empty = ({ title, text, children }) => html`
  <div class="empty"><h2>${title}</h2>${text && html`<p>${text}</p>`}${children}</div>
`;

/** @param {unknown} error */
export function reasonOf(error) {
  if (error instanceof Unreachable) return t("state.unreachable");
  if (error instanceof Problem && error.status === 403) return t("state.refused", { reason: error.message });
  return error instanceof Error ? error.message : String(error);
}

/** @param {{title?: string, text?: string, error?: unknown, retry?: () => void}} props */
export const Failure = ({ title, text, error, retry }) => html`
  <div class="failure" role="alert">
    <h2>${title ?? t("state.failed")}</h2>
    <p dir="auto">${text ?? (error === undefined ? "" : reasonOf(error))}</p>
    ${retry && html`<button onClick=${retry}>${t("state.retry")}</button>`}
  </div>
`;

/** Instead of a page that the key may not see. @param {{right: string}} props */
export const NoRight = ({ right }) => html`<${Failure} title=${t("settings.no_right")} text=${t("settings.no_right_text", { right })} />`;
