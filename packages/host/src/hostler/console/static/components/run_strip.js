// A run between the messages of a chat: what it does now, what it waits for, what it made and how it ended.
import { html } from "../lib/html.js";
import { duration, money, short } from "../lib/format.js";
import { t } from "../lib/i18n.js";
import { address } from "../lib/router.js";
import { Files } from "./content.js";
import { Icon } from "./icon.js";
import { Status } from "./status.js";

/**
 * @param {{live: import("../lib/live_run.js").LiveRun, place: number, of: number, files: any[], waits: boolean, open: boolean, show: () => void, children?: any}} props
 * `open`: its steps are shown beside. `children`: what it waits for.
 */
export function RunStrip({ live, place, of, files, waits, open, show, children }) {
  const { run } = live, tools = [...live.tools.values()], status = waits && !live.over ? "paused" : run.status;
  const failed = run.status === "failed" || run.status === "timeout";
  return html`
    <li class=${`strip ${live.over ? "over" : "works"}`} aria-posinset=${place} aria-setsize=${of}>
      <${Files} files=${files} />
      ${children}
      ${failed && html`<p class="wrong" role="alert" dir="auto">${live.error || t("chat.failed", { reason: run.status_code ?? run.status })}</p>`}
      <div class="strip-line">
        ${(run.status !== "completed" || waits) && html`<${Status} status=${status} />`}
        <span class="dim figures">${factsOf(run)}</span>
        ${!live.over && tools.length > 0 && html`<span class="dim doing"><bdi>${tools.slice(-3).map((tool) => tool.name).join(", ").slice(0, 120)}</bdi></span>`}
        <span class="tools">
          <button type="button" class="quiet" aria-expanded=${open} onClick=${show}><${Icon} name="runs" /> ${t("chat.steps")}</button>
          <a class="quiet-link dim" href=${address("runs", run.run_id)}>${t("chat.to_run")}</a>
        </span>
      </div>
    </li>
  `;
}

/** @param {any} run */
function factsOf(run) {
  const tokens = (run.usage?.input_tokens ?? 0) + (run.usage?.output_tokens ?? 0);
  return [
    html`<bdi>${run.agent}</bdi>`,
    run.started_at && run.finished_at ? duration(run.finished_at - run.started_at) : "",
    tokens ? t("runs.tokens", { tokens: short(tokens) }) : "",
    run.cost ? money(run.cost) : "",
  ].filter(Boolean).flatMap((part, place) => (place ? [" · ", part] : [part]));
}
