// The head of a run: what can be done with it, and its facts.
import { html } from "../lib/html.js";
import { path, post } from "../lib/api.js";
import { duration, money, moment, number } from "../lib/format.js";
import { t } from "../lib/i18n.js";
import { address, go, setQuery } from "../lib/router.js";
import { may } from "../lib/session.js";
import { actorPage, conversationPage, pageOf, pluginPageOf, runsOfConversation } from "../lib/thing_address.js";
import { attempt } from "./notice.js";
import { RunWaits } from "./run_waits.js";
import { TERMINAL } from "./status.js";
import { ThingLink } from "./thing_link.js";
import { Ago } from "./time.js";

/** @param {{run: any, replay: () => void}} props */
export function Actions({ run, replay }) {
  const over = TERMINAL.has(run.status), write = may("runs:write");
  const cancel = () => attempt(() => post(path("runs", run.run_id, "cancel"), {}), t("run.cancelling"));
  const again = async () => {
    const made = await attempt(() => post(path("runs", run.run_id, "retry"), {}));
    if (made) go(address("runs", made.run_id));
  };
  return html`
    <div class="actions">
      ${write && !over && html`<button class="danger" disabled=${run.cancel_requested_at !== null} onClick=${cancel}>${t("run.cancel")}</button>`}
      ${write && over && html`
        <button onClick=${again} title=${t("run.retry_help")}>${t("run.retry")}</button>
        <button onClick=${() => setQuery({ fork: "0", replay: null })} title=${t("run.fork_help")}>${t("run.fork_edited")}</button>
        <button onClick=${replay} title=${t("run.replay_help")}>${t("run.replay")}</button>
      `}
      <a class="button" href=${compareAddress(run)}>${t("run.compare")}</a>
      <a class="button" href=${path("runs", run.run_id, "export")} download=${`${run.run_id}.json`}>${t("run.download")}</a>
    </div>
  `;
}

/** With the run that it comes from, if there is one. @param {any} run */
export function compareAddress(run) {
  const other = run.forked_from ?? run.retry_of;
  return other ? address("runs", other, "compare", run.run_id) : address("runs", run.run_id, "compare");
}

/** @param {{run: any}} props */
export function Facts({ run }) {
  const tokens = (run.usage?.input_tokens ?? 0) + (run.usage?.output_tokens ?? 0);
  const facts = /** @type {[string, any][]} */ ([
    ["run.id", html`<code>${run.run_id}</code>`],
    ["run.began", html`<${Ago} at=${run.created_at} /> <span class="dim">(${moment(run.created_at)})</span>`],
  ]);
  if (run.waits?.length) facts.push(["run.waits", html`<${RunWaits} waits=${run.waits} />`]);
  if (run.started_at) facts.push(["run.took", duration((run.finished_at ?? Date.now() / 1000) - run.started_at)]);
  if (tokens) facts.push(["run.tokens", t("run.tokens_in_out", { in: number(run.usage.input_tokens ?? 0), out: number(run.usage.output_tokens ?? 0) })]);
  if (run.cost) facts.push(["run.cost", money(run.cost)]);
  if (run.conversation_id) {
    facts.push(["runs.conversation", html`<${ThingLink} to=${conversationPage(run.conversation_id)}>${run.conversation_id}<//> · <a href=${runsOfConversation(run.conversation_id)}>${t("run.of_conversation")}</a>`]);
  }
  facts.push(["runs.agent", html`<${ThingLink} to=${pageOf("agent", run.agent)}>${run.agent}<//> · <a href=${`/runs?${new URLSearchParams({ agent: run.agent })}`}>${t("run.others")}</a>`]);
  facts.push(["run.version", number(run.agent_version)], ["run.runner", html`<${ThingLink} to=${pluginPageOf(run.runner_id)}>${run.runner_id}<//>`]);
  if (run.attempt > 1) facts.push(["run.attempts", number(run.attempt)]);
  if (run.status_code) facts.push(["run.reason", html`<code>${run.status_code}</code>`]);
  if (run.cancel_reason) facts.push(["run.cancelled_by", html`<${ThingLink} to=${actorPage(run.cancel_requested_by ?? "")}>${run.cancel_requested_by}<//>: ${run.cancel_reason}`]);
  for (const [key, id] of [["run.retry_of", run.retry_of], ["run.forked_from", run.forked_from], ["run.parent", run.parent_run_id]]) {
    if (id) facts.push([key, html`<a href=${address("runs", id)}><code>${id}</code></a> · <a href=${address("runs", id, "compare", run.run_id)}>${t("run.compare_both")}</a>`]);
  }
  return html`<dl class="facts card run-facts">${facts.map(([key, value]) => html`<dt key=${key}>${t(key)}</dt><dd dir="auto">${value}</dd>`)}</dl>`;
}
