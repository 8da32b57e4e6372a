// Replays a run, and shows where it first differs from its recording.
import { html, useEffect, useState } from "../lib/html.js";
import { path, post } from "../lib/api.js";
import { duration } from "../lib/format.js";
import { t } from "../lib/i18n.js";
import { useReturnFocus } from "../lib/return_focus.js";
import { setQuery } from "../lib/router.js";
import { may } from "../lib/session.js";
import { Diff } from "./diff.js";
import { Failure } from "./states.js";

/** `wanted`: the reader has asked for a replay; `begun` is told when it has. @param {{run: any, wanted: boolean, begun: () => void}} props */
export function ReplayPanel({ run, wanted, begun }) {
  // undefined: not asked for; null: under way
  const panel = useReturnFocus();
  const [report, setReport] = useState(/** @type {any} */ (undefined));
  const replay = () => {
    setReport(null);
    post(path("runs", run.run_id, "replay"), {}).then(setReport, setReport);
  };
  useEffect(() => {
    if (!wanted) return;
    begun();
    if (report !== null && may("runs:write")) replay();
  }, [wanted]);
  return html`
    <section class="card" ref=${panel} aria-label=${t("run.replay")} aria-busy=${report === null}>
      <div class="line-of"><h2 class="grow">${t("run.replay")}</h2>
        <span class="actions">
          ${may("runs:write") && html`<button onClick=${replay} disabled=${report === null}>${t(report === undefined ? "run.replay" : "replay.again")}</button>`}
          <button class="quiet" onClick=${() => setQuery({ replay: null })}>${t("state.close")}</button>
        </span>
      </div>
      <p class="help">${t("replay.what")}</p>
      ${!may("runs:write") && html`<p>${t("replay.right")}</p>`}
      ${report === null && html`<p role="status">${t("replay.running")}</p>`}
      ${report instanceof Error && html`<${Failure} error=${report} />`}
      ${report && !(report instanceof Error) && html`<${Report} report=${report} />`}
    </section>
  `;
}

/** @param {{report: any}} props */
function Report({ report }) {
  const found = report.difference;
  return html`
    <p role="status"><strong class=${found ? "wrong" : "right"}>${found ? t("replay.differs") : t("replay.same", { count: report.steps })}</strong>
      <span class="dim"> ${duration(report.seconds)} · ${report.network === null ? t("replay.offline") : t("replay.online", { reason: report.network })}</span></p>
    ${report.notes.map((/** @type {string} */ note) => html`<p class="dim" key=${note}>${note}</p>`)}
    ${found && html`
      <p dir="auto">${found.title} ${found.position !== null && html`<a href=${`#step-${found.position}`}>${t("replay.show")}</a>`}</p>
      ${found.recorded !== null || found.replayed !== null
        ? html`<${Diff} before=${found.recorded ?? undefined} after=${found.replayed ?? undefined} labels=${[t("replay.recorded"), t("replay.replayed")]} />`
        : html`<pre class="value">${found.lines.join("\n")}</pre>`}
      ${report.text !== report.recorded_text && html`<h3>${t("run.answered")}</h3>
        <${Diff} before=${report.recorded_text} after=${report.text} labels=${[t("replay.recorded"), t("replay.replayed")]} />`}
    `}
  `;
}
