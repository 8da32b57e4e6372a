// What a run waits for: in a few words for lists, and with links and times on its page.
import { html } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { address } from "../lib/router.js";
import { Until } from "./until.js";

/** @typedef {{kind: string, run_id: string | null, until: number | null, text: string | null}} Wait */

/** @param {Wait} wait */
const wordsOf = (wait) => t(`wait.${wait.kind}`, { what: wait.text ?? "" });

/** Each kind once: a run may wait for many runs. @param {any} run */
export const waitsInShort = (run) => [...new Set((run.waits ?? []).map(wordsOf))].join(", ");

/** @param {{waits: Wait[]}} props */
export const RunWaits = ({ waits }) => html`<ul class="plain-list run-waits">
  ${waits.map((wait, index) => html`<li key=${index} dir="auto">${wordsOf(wait)}
    ${wait.run_id && html` <a href=${address("runs", wait.run_id)}><code>${wait.run_id}</code></a>`}
    ${wait.until && html` <span class="dim"><${Until} at=${wait.until} /></span>`}</li>`)}
</ul>`;
