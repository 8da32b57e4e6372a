// One remote worker: its machine, and what it did by hour.
import { html, useState } from "../lib/html.js";
import { get, path } from "../lib/api.js";
import { brief } from "../lib/brief.js";
import { duration, moment, number } from "../lib/format.js";
import { t } from "../lib/i18n.js";
import { usePolled } from "../lib/polled.js";
import { go } from "../lib/router.js";
import { PolledStates } from "./polled_states.js";
import { Table } from "./table.js";
import { Ago } from "./time.js";
import { WorkerActions, WorkerState } from "./worker_actions.js";

const SHOWN_HOURS = 24;
const MACHINE = ["system", "target", "python", "sandbox"];

/** @param {{id: string}} props */
export function Worker({ id }) {
  const polled = usePolled((signal) => get(path("workers", id), {}, signal), [id]), worker = polled.value;
  return html`
    <header class="head">
      <h1><a class="back" href="/workers" aria-label=${t("workers.back")}>←</a> <bdi>${id}</bdi></h1>
      ${worker && html`<${WorkerState} worker=${worker} />
        <div class="actions"><${WorkerActions} worker=${worker} changed=${polled.again} gone=${() => go("/workers")} /></div>`}
    </header>
    <${PolledStates} of=${polled} />
    ${worker && html`
      ${!worker.connected && worker.reason && html`<p class="warning" dir="auto">${brief(worker.reason)}</p>`}
      <dl class="facts card">
        <dt>${t("workers.labels")}</dt><dd><${Labels} of=${worker} /></dd>
        <dt>${t("workers.slots")}</dt><dd><${Slots} of=${worker} /></dd>
        <dt>${t("workers.seen")}</dt><dd><${Ago} at=${worker.seen_at} /> <span class="dim">(${moment(worker.seen_at)})</span></dd>
        <dt>${t("workers.joined")}</dt><dd>${moment(worker.joined_at)}</dd>
        <dt>${t("run.version")}</dt><dd dir="auto">${worker.version}</dd>
        ${worker.host_id && html`<dt>${t("workers.host")}</dt><dd><code>${worker.host_id}</code></dd>`}
        ${MACHINE.filter((name) => worker.machine[name]).map((name) => html`<dt key=${name}>${t(`workers.${name}`)}</dt><dd dir="auto">${brief(worker.machine[name])}</dd>`)}
      </dl>
      <${Hours} hours=${worker.hours} />`}
  `;
}

/** @param {{of: any}} props */
export const Labels = ({ of }) => (of.labels.length ? html`<span class="tags">${of.labels.map((/** @type {string} */ label) => html`<span class="tag" key=${label}>${label}</span>`)}</span>` : html`<span class="dim">${t("workers.no_labels")}</span>`);

/** @param {{of: any}} props */
export const Slots = ({ of }) => html`<span class="nowrap">${t("workers.used", { used: number(of.active), all: number(of.slots) })}</span>`;

/** What is lost is not to be overlooked. @param {string} name @param {any} hour */
const failing = (name, hour) => (hour[name] ? html`<span class="wrong">${number(hour[name])}</span>` : number(0));

/** @param {{hours: any[]}} props */
function Hours({ hours }) {
  const [all, setAll] = useState(false);
  return html`
    <div class="section-head"><h2>${t("workers.hours")}</h2></div>
    <p class="dim">${t("workers.hours_help")}</p>
    ${hours.length === 0 && html`<p class="dim">${t("workers.no_hours")}</p>`}
    ${hours.length > 0 && html`<${Table} label=${t("workers.hours")} rows=${all ? hours : hours.slice(0, SHOWN_HOURS)} keyOf=${(/** @type {any} */ one) => String(one.hour)} columns=${[
      { key: "hour", label: t("workers.hour"), wide: true, cell: (/** @type {any} */ one) => html`<span class="nowrap">${moment(one.hour)}</span>` },
      { key: "claimed", label: t("workers.claimed"), figures: true, cell: (/** @type {any} */ one) => number(one.claimed) },
      { key: "done", label: t("workers.done"), figures: true, cell: (/** @type {any} */ one) => number(one.done) },
      { key: "failed", label: t("runs.failures"), figures: true, cell: (/** @type {any} */ one) => failing("failed", one) },
      { key: "lost", label: t("workers.lost"), figures: true, cell: (/** @type {any} */ one) => failing("lost", one) },
      { key: "waited_seconds", label: t("workers.waited"), figures: true, cell: (/** @type {any} */ one) => html`<span class="nowrap">${duration(one.waited_seconds)}</span>` },
      { key: "ran_seconds", label: t("workers.ran"), figures: true, cell: (/** @type {any} */ one) => html`<span class="nowrap">${duration(one.ran_seconds)}</span>` },
    ]} />`}
    ${!all && hours.length > SHOWN_HOURS && html`<p class="foot"><button onClick=${() => setAll(true)}>${t("workers.all_hours", { count: hours.length })}</button></p>`}
  `;
}
