// The schedules, and one of them: its next firings and the last ones.
import { html } from "../lib/html.js";
import { get, path, post, remove } from "../lib/api.js";
import { brief } from "../lib/brief.js";
import { duration, moment } from "../lib/format.js";
import { usePages } from "../lib/fresh.js";
import { t } from "../lib/i18n.js";
import { keep } from "../lib/kept.js";
import { useShown } from "../lib/kept_state.js";
import { usePolled } from "../lib/polled.js";
import { address, go } from "../lib/router.js";
import { may } from "../lib/session.js";
import { ConfirmButton } from "./confirm.js";
import { Listing } from "./listing.js";
import { attempt } from "./notice.js";
import { PolledStates } from "./polled_states.js";
import { ScheduleForm } from "./schedule_form.js";
import { Empty } from "./states.js";
import { Table } from "./table.js";
import { Ago } from "./time.js";

/** @type {Record<string, string>} */
const KINDS = { active: "good", paused: "waits", ended: "dim" };
const SECONDS = 5;
const NEW = "new schedule";

/** @param {{name?: string}} props */
export const Section = ({ name }) => (name === undefined ? html`<${List} />` : html`<${One} key=${name} name=${name} />`);

const mayChange = () => may("agents:write") && may("events:write");

/** What a schedule is called: one that a run made, by the name that it gave. @param {any} schedule */
const titleOf = (schedule) => (schedule.run_id && schedule.spec?.name) || schedule.name;

/** By what a schedule fires. @param {any} spec */
export function timingOf(spec) {
  if (!spec) return t("schedules.unreadable");
  if (spec.cron) return `${spec.cron} (${spec.timezone})`;
  return spec.every ? t("schedules.every", { time: duration(spec.every) }) : t("schedules.once", { time: spec.at });
}

/** @param {{schedule: any}} props */
const State = ({ schedule }) => html`<span class="status ${KINDS[schedule.status]}">${t(`schedule_state.${schedule.status}`)}</span>`;

function List() {
  const list = usePages("/v1/schedules", {}, SECONDS);
  const [making, setMaking] = useShown(NEW);
  const empty = html`<${Empty} title=${t("schedules.none")} text=${t("schedules.none_text")}>
    <pre class="commands">hostler schedules add morning 'cron=0 8 * * 1-5' timezone=Europe/Berlin agent=reporter text="Write the report."</pre>
  <//>`;
  return html`
    <div class="section-head"><p class="dim">${t("schedules.help")}</p>${mayChange() && !making && html`<button onClick=${() => setMaking(true)}>${t("schedules.new")}</button>`}</div>
    ${making && mayChange() && html`<${ScheduleForm} draft=${NEW} done=${() => { setMaking(false); list.reload(); }} cancel=${() => setMaking(false)} />`}
    <${Listing} list=${list} empty=${empty}>
      <${Table} label=${t("sources.schedules")} rows=${list.items ?? []} keyOf=${(/** @type {any} */ one) => one.name} columns=${[
      { key: "name", label: t("schedules.schedule"), wide: true, cell: (/** @type {any} */ one) => html`<span><a href=${address("schedules", one.name)}><bdi>${titleOf(one)}</bdi></a>${one.run_id && html` <span class="dim">${t("schedules.reminder")}</span>`}<br /><span class="dim">${timingOf(one.spec)}</span>${one.error && html`<br /><span class="wrong clamp" dir="auto">${brief(one.error)}</span>`}</span>` },
      { key: "status", label: t("tools.state"), cell: (/** @type {any} */ one) => html`<${State} schedule=${one} />` },
      { key: "next_at", label: t("schedules.next"), cell: (/** @type {any} */ one) => one.next_at && html`<span class="nowrap">${moment(one.next_at)}</span>` },
      { key: "last_planned", label: t("schedules.last"), cell: (/** @type {any} */ one) => one.last_planned && html`<${Ago} at=${one.last_planned} />` },
      { key: "firings", label: t("schedules.firings"), figures: true },
    ]} />
    </${Listing}>
  `;
}

/** @param {{name: string}} props */
function One({ name }) {
  const polled = usePolled(async (signal) => {
    const [schedule, next] = await Promise.all([get(path("schedules", name), {}, signal), get(path("schedules", name, "next"), {}, signal)]);
    return { schedule, next: next.items };
  }, [name]);
  const draft = `schedule ${name}`, [editing, setEditing] = useShown(draft);
  const { schedule, next } = polled.value ?? { schedule: null, next: [] };
  const act = (/** @type {string} */ what) => attempt(() => post(path("schedules", name, what), {}), t(`schedules.${what}_done`)).then(polled.again);
  const drop = () => attempt(() => remove(path("schedules", name)).then(() => (keep(draft, undefined), true)), t("schedules.removed")).then((done) => done && go("/schedules"));
  const entry = schedule?.run_id === null ? schedule.spec : null; // a runner made the others, which are removed and not changed
  return html`
    <h2 class="thing"><a class="back" href="/schedules" aria-label=${t("schedules.back")}>←</a> <bdi>${schedule ? titleOf(schedule) : name}</bdi> ${schedule && html`<${State} schedule=${schedule} />`}
      ${schedule && html`<span class="actions">
        ${may("events:write") && html`<button onClick=${() => act("run")}>${t("schedules.run")}</button>`}
        ${may("agents:write") && schedule.status === "active" && html`<button onClick=${() => act("pause")}>${t("schedules.pause")}</button>`}
        ${may("agents:write") && schedule.status === "paused" && html`<button onClick=${() => act("resume")}>${t("schedules.resume")}</button>`}
        ${mayChange() && entry && !editing && html`<button onClick=${() => setEditing(true)}>${t("webhooks.change")}</button>`}
        ${may("agents:write") && html`<${ConfirmButton} label=${t("members.remove")} question=${t("schedules.remove_sure")} act=${drop} />`}
      </span>`}</h2>
    <${PolledStates} of=${polled} quiet=${true} />
    ${editing && mayChange() && entry && html`<${ScheduleForm} draft=${draft} entry=${entry} done=${() => { setEditing(false); polled.again(); }} cancel=${() => setEditing(false)} />`}
    ${schedule && html`
      ${schedule.error && html`<div class="failure in-place"><p dir="auto">${schedule.error}</p></div>`}
      <dl class="facts card">
        <dt>${t("schedules.timing")}</dt><dd>${timingOf(schedule.spec)}</dd>
        <dt>${t("runs.agent")}</dt><dd>${schedule.spec?.agent ? html`<a href=${address("agents", schedule.spec.agent)}><bdi>${schedule.spec.agent}</bdi></a>` : t("schedules.any_agent")}</dd>
        ${schedule.spec?.text && html`<dt>${t("schedules.text")}</dt><dd dir="auto">${schedule.spec.text}</dd>`}
        <dt>${t("schedules.misfire")}</dt><dd>${schedule.spec && t(`misfire.${schedule.spec.misfire}`)}</dd>
        <dt>${t("schedules.made_by")}</dt><dd><bdi>${schedule.made_by}</bdi></dd>
        ${schedule.run_id && html`<dt>${t("schedules.by_run")}</dt><dd><a href=${address("runs", schedule.run_id)}>${t("messages.run")}</a></dd>
        <dt>${t("schedules.conversation")}</dt><dd><bdi>${schedule.spec?.conversation_id}</bdi></dd>`}
      </dl>
      <section class="card">
        <h2>${t("schedules.upcoming")}</h2>
        ${next.length ? html`<ol class="plain-list">${next.map((/** @type {any} */ one) => html`<li key=${one.planned_at}>${moment(one.due_at)}</li>`)}</ol>` : html`<p class="dim">${t("schedules.no_more")}</p>`}
      </section>
      ${may("events:read") && html`<${Firings} name=${name} />`}`}
  `;
}

/** @param {{name: string}} props */
function Firings({ name }) {
  const list = usePages(path("schedules", name, "firings"), {}, 10);
  return html`
    <h2>${t("schedules.latest")}</h2>
    <${Listing} list=${list} empty=${html`<p class="dim">${t("schedules.not_fired")}</p>`}>
      <${Table} label=${t("schedules.latest")} rows=${list.items ?? []} keyOf=${(/** @type {any} */ one) => String(one.number)} columns=${[
        { key: "planned_at", label: t("schedules.planned"), cell: (/** @type {any} */ one) => html`<span class="nowrap">${moment(one.planned_at)}</span>` },
        { key: "late", label: t("schedules.late"), figures: true, cell: (/** @type {any} */ one) => duration(one.late) },
        { key: "outcome", label: t("schedules.outcome"), wide: true, cell: (/** @type {any} */ one) => html`<span><code>${one.outcome}</code>${one.left_out > 0 && html` <span class="dim">${t("schedules.left_out", { count: one.left_out })}</span>`}${one.reason && html`<br /><span class="dim" dir="auto">${brief(one.reason)}</span>`}</span>` },
        { key: "asked_by", label: t("schedules.asked_by"), cell: (/** @type {any} */ one) => html`<bdi>${one.asked_by ?? ""}</bdi>` },
        { key: "run_id", label: t("page.run"), sort: false, cell: (/** @type {any} */ one) => one.run_id && html`<a href=${address("runs", one.run_id)}>${t("messages.run")}</a>` },
      ]} />
    </${Listing}>
  `;
}
