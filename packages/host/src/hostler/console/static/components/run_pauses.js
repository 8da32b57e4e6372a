// What one run waits for, decided in place: on the page of the run, and in chat.
import { html } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { pausesOf, readPause } from "../lib/live_pauses.js";
import { lazy } from "./lazy.js";

/** Most runs wait for nobody. */
const Decision = lazy(() => import("./decision.js").then((module) => module.Decision));

/** Nothing where the run waits for nobody, or the person may not see it. @param {{run_id: string}} props */
export function RunPauses({ run_id }) {
  const pauses = pausesOf(run_id);
  return html`<section class="run-pauses" aria-label=${t("approvals.waits")} aria-live="polite">
    ${pauses.map((pause) => html`<${Decision} key=${pause.id} pause=${pause} changed=${() => readPause(pause.id)} />`)}
  </section>`;
}
