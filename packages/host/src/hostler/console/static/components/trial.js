// How a test goes: the answer as it is written, its time, tokens and cost, and the run that did it.
import { html, useEffect, useMemo } from "../lib/html.js";
import { duration, money, number } from "../lib/format.js";
import { t } from "../lib/i18n.js";
import { liveTrial } from "../lib/live_trial.js";
import { address } from "../lib/router.js";
import { may } from "../lib/session.js";
import { Decision } from "./decision.js";
import { Value } from "./json.js";
import { LazyMarkdown as Markdown } from "./lazy_markdown.js";
import { attempt } from "./notice.js";
import { Failure } from "./states.js";
import { Status, TERMINAL } from "./status.js";

/** @param {{run_id: string, plain?: boolean}} props `plain`: the answer is no Markdown. */
export function Trial({ run_id, plain }) {
  const trial = useMemo(() => liveTrial(run_id), [run_id]);
  useEffect(() => trial.stop, [trial]);
  const { run, pauses, text, reasoning, error, failure, connected } = trial.state.value;
  if (failure) return html`<${Failure} error=${failure} />`;
  if (!run) return html`<p class="loading" role="status">${t("trial.begins")}</p>`;
  const over = TERMINAL.has(run.status);
  return html`
    <div class="trial" aria-live="polite">
      <p class="trial-head">
        <${Status} status=${run.status} /> <a href=${address("runs", run_id)}>${t("trial.run")}</a>
        <span class="dim">${over ? figures(run) : connected ? "" : t("state.reconnecting")}</span>
        ${!over && may("runs:write") && html`<button onClick=${() => attempt(trial.cancel)}>${t("run.cancel")}</button>`}
      </p>
      ${!over && pauses.map((/** @type {any} */ pause) => html`<${Decision} key=${pause.id} pause=${pause} changed=${trial.read} />`)}
      ${!over && run.status === "paused" && !pauses.length && html`<p class="warning">${t("trial.waits")}</p>`}
      ${error && html`<div class="failure in-place"><p dir="auto">${error}</p></div>`}
      ${reasoning && html`<details><summary>${t("trial.reasoning")}</summary><p class="verbatim dim" dir="auto">${reasoning}</p></details>`}
      ${text && (plain ? html`<${Value} value=${text} />` : html`<${Markdown} text=${text} />`)}
    </div>
  `;
}

/** @param {any} run */
function figures(run) {
  const found = [];
  if (run.started_at && run.finished_at) found.push(duration(run.finished_at - run.started_at));
  if (run.usage?.input_tokens || run.usage?.output_tokens) found.push(t("trial.tokens", { in: number(run.usage.input_tokens ?? 0), out: number(run.usage.output_tokens ?? 0) }));
  if (run.cost) found.push(t("trial.cost", { cost: money(run.cost) }));
  return found.join(" · ");
}
