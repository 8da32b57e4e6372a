// The journal as it is: entry by entry.
import { html, useEffect, useState } from "../lib/html.js";
import { clock } from "../lib/format.js";
import { t } from "../lib/i18n.js";
import { journalPages } from "../lib/live_journal.js";
import { useReadUpTo } from "../lib/read_up_to.js";
import { Value } from "./json.js";
import { Failure } from "./states.js";
import { StepList } from "./step_list.js";

/** @typedef {import("../lib/live_journal.js").LiveJournal} LiveJournal */
/** @typedef {{position: number, kind: string, type: string, at: number, attempt: number}} Line */

const ROW_PIXELS = 32;
/** Of a journal that was read, for as long as its page is open. @type {WeakMap<LiveJournal, Line[]>} */
const known = new WeakMap();

/** @param {{journal: LiveJournal}} props */
export function RawJournal({ journal }) {
  const [lines, failure] = useLines(journal);
  const [opened, setOpened] = useState(/** @type {Set<string>} */ (new Set()));
  const toggle = (/** @type {string} */ key) => setOpened((before) => {
    const next = new Set(before);
    if (!next.delete(key)) next.add(key);
    return next;
  });
  return html`
    ${failure && html`<${Failure} error=${failure} />`}
    <${StepList}
      items=${lines} height=${ROW_PIXELS} opened=${opened} label=${t("run.journal")} keyOf=${(/** @type {Line} */ line) => String(line.position)}
      row=${(/** @type {Line} */ line, /** @type {number} */ _, /** @type {boolean} */ open) => html`<div class="step journal-line">
        <button class="row" aria-expanded=${open} onClick=${() => toggle(String(line.position))}>
          <span class="dim figures">${line.position}</span><span class="kind">${line.kind}</span>
          <span class="what"><bdi>${line.type}</bdi></span><span class="dim figures">${clock(line.at)}</span>
        </button>
      </div>`}
      inside=${(/** @type {Line} */ line) => html`<${Entry} position=${line.position} journal=${journal} />`}
    />
  `;
}

/** Of each entry only what its line shows is kept. @param {LiveJournal} journal @returns {[Line[], unknown]} */
function useLines(journal) {
  const [lines, setLines] = useState(known.get(journal) ?? []);
  const [failure, setFailure] = useState(/** @type {unknown} */ (null));
  useReadUpTo(journal.last.value, [journal], async (_, abort) => {
    let all = known.get(journal) ?? [];
    for await (const entries of journalPages(journal.run.value.run_id, { after: all.at(-1)?.position ?? 0 }, abort)) {
      all = [...all, ...entries.map(({ position, kind, type, at, attempt }) => ({ position, kind, type, at, attempt }))];
      known.set(journal, all);
      setLines(all);
    }
  }, setFailure);
  return [lines, failure];
}

/** @param {{position: number, journal: LiveJournal}} props */
function Entry({ position, journal }) {
  const [found, setFound] = useState(/** @type {any} */ (null));
  useEffect(() => void journal.entry(position).then(setFound, (error) => setFound({ error: String(error) })), [position]);
  return html`<div class="details">${found === null ? html`<p class="dim">${t("state.loading")}</p>` : html`<${Value} value=${found} />`}</div>`;
}
