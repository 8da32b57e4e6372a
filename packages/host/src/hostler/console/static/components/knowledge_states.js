// How far documents have come.
import { html } from "../lib/html.js";
import { number } from "../lib/format.js";
import { t } from "../lib/i18n.js";

/** @type {Record<string, string>} */
const KINDS = { waiting: "waits", indexing: "works", ready: "good", failed: "bad" };
export const STATES = Object.keys(KINDS);

/** Of all documents of a base: nothing where all are ready. @param {{base: any}} props */
export const Counts = ({ base }) => {
  const shown = ["failed", "indexing", "waiting"].filter((state) => base[state]);
  if (!base.documents) return null;
  if (!shown.length) return html`<span class="status good">${t("document_state.ready")}</span>`;
  return html`<span class="tags">${shown.map((state) => html`<span key=${state} class=${`status ${KINDS[state]}`}>${t(`document_count.${state}`, { count: base[state], number: number(base[state]) })}</span>`)}</span>`;
};

/** Of one document, with how much of it is indexed. @param {{of: any}} props */
export function DocumentState({ of }) {
  const some = of.state === "indexing" && of.passages_total;
  return html`<span class="stack document-state">
    <span class=${`status ${KINDS[of.state]}`}>${t(`document_state.${of.state}`)}</span>
    ${some && html`<progress max=${of.passages_total} value=${of.passages_done} aria-label=${t("knowledge.progress_of", { name: of.name.slice(0, 60) })} />
      <span class="dim nowrap">${t("knowledge.progress", { done: number(of.passages_done), all: number(of.passages_total) })}</span>`}
    ${of.state !== "ready" && of.searchable && html`<span class="dim">${t("knowledge.earlier")}</span>`}
  </span>`;
}

/** Whether something is still to come of it. @param {any} document */
export const isUnderWay = (document) => document.state === "waiting" || document.state === "indexing";
