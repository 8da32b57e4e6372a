// What a reader has to know about an agent: mistakes, problems, and that others changed it.
import { html, useState } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { makerOf } from "../lib/live_agents.js";
import { setQuery } from "../lib/router.js";
import { lazy } from "./lazy.js";

const Diff = lazy(() => import("./diff.js").then((module) => module.Diff));

/** @typedef {import("../lib/live_agents.js").Agent} Agent */

/** The tab where a place is changed. @param {string} place */
export function tabOfPlace(place) {
  if (/^(event_types|filters|scope|priority)\b/.test(place)) return "bindings";
  if (/^(resource_policy|state_policy|delivery_policy|concurrency|recovery|allow_questions|idle_timeout)\b/.test(place)) return "policy";
  return null;
}

/** Bring the field of a mistake into view. @param {string} place */
function show(place) {
  setQuery({ tab: tabOfPlace(place) });
  setTimeout(() => {
    for (let at = place; at; at = at.slice(0, Math.max(at.lastIndexOf("."), at.lastIndexOf("["), 0))) {
      const found = document.querySelector(`[data-place="${CSS.escape(at)}"]`);
      if (!found) continue;
      const fold = found.closest("details");
      if (fold) fold.open = true;
      found.scrollIntoView({ block: "center" });
      /** @type {HTMLElement | null} */ (found.querySelector("input, select, textarea, button"))?.focus();
      return;
    }
  }, 100);
}

/** @param {{wrong: Map<string, string>}} props */
export function Mistakes({ wrong }) {
  if (!wrong.size) return null;
  return html`<section class="mistakes" role="alert" tabindex="-1" aria-label=${t("agents.mistakes", { count: wrong.size })}>
    <h2>${t("agents.mistakes", { count: wrong.size })}</h2>
    <ul>${[...wrong].map(([place, text]) => html`<li key=${place}><button type="button" class="link" onClick=${() => show(place)}><code>${place || "–"}</code></button> <span dir="auto">${text}</span></li>`)}</ul>
  </section>`;
}

/** What does not work with the stored agent. @param {{problems: {problem: string, place: string, severity: string}[]}} props */
export const Problems = ({ problems }) => (problems.length === 0 ? null : html`<section class="problems" aria-label=${t("agents.problems")}>
  ${problems.map((one, index) => html`<p key=${index} class=${one.severity === "error" ? "wrong" : "warned"}>
    ${one.place && html`<button type="button" class="link" onClick=${() => show(one.place)}><code>${one.place}</code></button>`} <span dir="auto">${one.problem}</span></p>`)}
</section>`);

/** Others saved a version while this one was changed. @param {{mine: Agent | null, theirs: Agent, discard: () => void, over: () => void}} props */
export function Conflict({ mine, theirs, discard, over }) {
  const [open, setOpen] = useState(false);
  return html`<section class="mistakes" role="alert">
    <h2>${t("agents.conflict", { version: theirs.version, who: makerOf(theirs) })}</h2>
    <p>${t("agents.conflict_text")}</p>
    <div class="line-of">
      <button type="button" aria-expanded=${open} onClick=${() => setOpen(!open)}>${t("agents.conflict_show")}</button>
      <button type="button" onClick=${discard}>${t("agents.conflict_theirs")}</button>
      <button type="button" class="danger" onClick=${over}>${t("agents.conflict_mine")}</button>
    </div>
    ${open && mine && html`<${Diff} before=${mine.spec} after=${theirs.spec} labels=${[t("agents.version", { version: mine.version }), t("agents.version", { version: theirs.version })]} />`}
  </section>`;
}
