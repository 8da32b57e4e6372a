// The hooks: who sends to which address, how that is verified, and what came; and the entry of one.
import { html } from "../lib/html.js";
import { get } from "../lib/api.js";
import { choices } from "../lib/choices.js";
import { number } from "../lib/format.js";
import { t } from "../lib/i18n.js";
import { usePolled } from "../lib/polled.js";
import { address, go, here } from "../lib/router.js";
import { may, session } from "../lib/session.js";
import { hookFields, moreHookFields } from "../lib/source_fields.js";
import { CopyButton } from "./copy_button.js";
import { PolledStates } from "./polled_states.js";
import { SourceEntry } from "./source_entry.js";
import { SourceEvents } from "./source_events.js";
import { Empty, Failure, NoRight } from "./states.js";
import { Table } from "./table.js";
import { UnreadableEntries } from "./unreadable_entries.js";

/** @param {{name?: string}} props */
export function Section({ name }) {
  if (!may("installation")) return html`<${NoRight} right="installation" />`;
  if (name !== undefined) return html`<${One} key=${name} name=${name} />`;
  return here.value.query.has("new") ? html`<${New} />` : html`<${List} />`;
}

const fields = () => hookFields(choices("agents").map((one) => one.value));

function New() {
  return html`
    <h2 class="thing"><a class="back" href="/hooks" aria-label=${t("hooks.back")}>←</a> ${t("source.new.hooks")}</h2>
    <p class="dim">${t("hooks.help")}</p>
    <${SourceEntry} kind="hooks" begin=${{ secrets: [""] }} fields=${fields} more=${moreHookFields} done=${(/** @type {string} */ name) => go(address("hooks", name), { replace: true })} />
  `;
}

/** @param {{name: string}} props */
function One({ name }) {
  const polled = usePolled(read, []), hook = polled.value?.find((/** @type {any} */ one) => one.name === name);
  const done = (/** @type {string | null} */ kept) => (kept === null ? go("/hooks") : polled.again());
  return html`
    <h2 class="thing"><a class="back" href="/hooks" aria-label=${t("hooks.back")}>←</a> <bdi>${name}</bdi> ${hook && html`<${Verified} by=${hook.verify} />`}</h2>
    <${PolledStates} of=${polled} quiet=${true} />
    ${polled.value && !hook && html`<${Failure} title=${t("hooks.gone")} />`}
    ${hook && html`
      ${hook.problems.map((/** @type {string} */ text) => html`<p class="warning" key=${text} dir="auto">${text}</p>`)}
      <dl class="facts card">
        <dt>${t("hooks.address")}</dt><dd><code>${location.origin}${hook.path}</code> <${CopyButton} text=${`${location.origin}${hook.path}`} label=${t("hooks.copy")} /></dd>
        <dt>${t("runs.agent")}</dt><dd>${hook.agent ? html`<a href=${address("agents", hook.agent)}><bdi>${hook.agent}</bdi></a>` : t("schedules.any_agent")}</dd>
        <dt>${t("hooks.secrets")}</dt><dd>${number(hook.secrets)}</dd>
        <dt>${t("hooks.requests")}</dt><dd>${Object.keys(hook.requests).length ? html`<${Requests} of=${hook} />` : number(0)}</dd>
      </dl>
      ${hook.workspace_id === session.value?.workspace_id && html`<${SourceEvents} of=${`hook:${name}`} />`}
      <${SourceEntry} kind="hooks" name=${name} fields=${fields} more=${moreHookFields} done=${done} />`}
  `;
}

/** @param {AbortSignal} signal */
const read = (signal) => get("/v1/hooks", {}, signal).then((page) => page.items);

function List() {
  const polled = usePolled(read, []);
  const hooks = polled.value;
  return html`
    <div class="section-head"><p class="dim grow">${t("hooks.help")}</p><a class="button" href="/hooks?new=">${t("source.new.hooks")}</a></div>
    <${PolledStates} of=${polled} />
    ${hooks?.length === 0 && html`<${Empty} title=${t("hooks.none")} text=${t("hooks.none_text")}>
      <pre class="commands">hostler hooks add github verify=github 'secrets=["env:GITHUB_SECRET"]' agent=triage</pre>
    <//>`}
    ${hooks && hooks.length > 0 && html`<${Table} label=${t("sources.hooks")} rows=${hooks} keyOf=${(/** @type {any} */ one) => one.name} columns=${columns()} />`}
    <${UnreadableEntries} kind="hooks" />
  `;
}

/** @returns {import("./table.js").Column[]} */
const columns = () => [
  { key: "name", label: t("hooks.hook"), wide: true, cell: (one) => html`<span><a href=${address("hooks", one.name)}><bdi>${one.name}</bdi></a><br /><code>${location.origin}${one.path}</code>${one.problems.map((/** @type {string} */ text) => html`<br key=${text} /><span class="wrong" dir="auto">${text}</span>`)}</span>` },
  { key: "verify", label: t("hooks.verify"), cell: (one) => html`<${Verified} by=${one.verify} />` },
  { key: "agent", label: t("runs.agent"), cell: (one) => one.agent && html`<a class="nowrap" href=${address("agents", one.agent)}><bdi>${one.agent}</bdi></a>` },
  { key: "secrets", label: t("hooks.secrets"), figures: true },
  { key: "requests", label: t("hooks.requests"), sort: false, cell: (one) => Object.keys(one.requests).length ? html`<${Requests} of=${one} />` : null },
];

/** @param {{by: string}} props */
const Verified = ({ by }) => html`<span class="status ${by === "none" ? "bad" : "good"}">${by === "none" ? t("hooks.unverified") : by}</span>`;

/** @param {{of: any}} props */
const Requests = ({ of }) => html`<span>${Object.entries(of.requests).sort().map(([outcome, count]) => html`<span key=${outcome} class="nowrap">${outcomeOf(outcome)} ${number(count)}<br /></span>`)}</span>`;

const OUTCOMES = new Set(["accepted", "duplicate", "conflict", "challenge", "rate", "failed"]);

/** What became of requests; all else are reasons of refusals. @param {string} name */
const outcomeOf = (name) => (OUTCOMES.has(name) ? t(`hook_outcome.${name}`) : t("hook_outcome.refused", { reason: name }));
