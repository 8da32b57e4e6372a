// The journal as it is: entry by entry.
import { html, useEffect, useMemo, useState } from "../lib/html.js";
import { clock } from "../lib/format.js";
import { get, path } from "../lib/api.js";
import { t } from "../lib/i18n.js";
import { Value } from "./json.js";
import { Failure } from "./states.js";
import { StepList } from "./step_list.js";

/** @typedef {import("../lib/live_journal.js").LiveJournal} LiveJournal */
/** @typedef {{position: number, kind: string, type: string, at: number, attempt: number}} Line */

const ROW_PIXELS = 32;
const PAGE = 500;

/** @param {{journal: LiveJournal}} props */
export function RawJournal({ journal }) {
  const run = journal.run.value, last = journal.steps.value.at(-1)?.position ?? 0;
  const [lines, failure] = useLines(run.run_id, last);
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
      row=${(/** @type {Line} */ line, /** @type {number} */ _, /** @type {boolean} */ open) => html`<div class="step entry">
        <button class="row" aria-expanded=${open} onClick=${() => toggle(String(line.position))}>
          <span class="dim figures">${line.position}</span><span class="kind">${line.kind}</span>
          <span class="what"><bdi>${line.type}</bdi></span><span class="dim figures">${clock(line.at)}</span>
        </button>
      </div>`}
      inside=${(/** @type {Line} */ line) => html`<${Entry} position=${line.position} journal=${journal} />`}
    />
  `;
}

/** Of each entry only what its line shows is kept. @param {string} runId @param {number} last @returns {[Line[], unknown]} */
function useLines(runId, last) {
  const [lines, setLines] = useState(/** @type {Line[]} */ ([]));
  const [failure, setFailure] = useState(/** @type {unknown} */ (null));
  const kept = useMemo(() => ({ lines: /** @type {Line[]} */ ([]), reading: false, wanted: 0 }), [runId]);
  useEffect(() => {
    kept.wanted = last;
    if (kept.reading) return;
    kept.reading = true;
    const read = async () => {
      while ((kept.lines.at(-1)?.position ?? 0) < kept.wanted) {
        const page = await get(path("runs", runId, "journal"), { after: kept.lines.at(-1)?.position, limit: PAGE, brief: true });
        if (!page.items.length) return;
        const more = page.items.map((/** @type {any} */ { position, kind, type, at, attempt }) => ({ position, kind, type, at, attempt }));
        kept.lines = [...kept.lines, ...more];
        setLines(kept.lines);
      }
    };
    read().then(() => setFailure(null), setFailure).finally(() => (kept.reading = false));
  }, [runId, last]);
  return [lines, failure];
}

/** @param {{position: number, journal: LiveJournal}} props */
function Entry({ position, journal }) {
  const [found, setFound] = useState(/** @type {any} */ (null));
  useEffect(() => void journal.entry(position).then(setFound, (error) => setFound({ error: String(error) })), [position]);
  return html`<div class="details">${found === null ? html`<p class="dim">${t("state.loading")}</p>` : html`<${Value} value=${found} />`}</div>`;
}
