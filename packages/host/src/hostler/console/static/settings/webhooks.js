// Webhooks: who is told of pauses, ends of runs and anchors, what was delivered, and what was given up.
import { html, useState } from "../lib/html.js";
import { path, post, put, remove } from "../lib/api.js";
import { moment } from "../lib/format.js";
import { usePages } from "../lib/fresh.js";
import { plainFields } from "../lib/form_changes.js";
import { t } from "../lib/i18n.js";
import { keep } from "../lib/kept.js";
import { input, useDraft, useKept } from "../lib/kept_state.js";
import { here, setQuery } from "../lib/router.js";
import { may } from "../lib/session.js";
import { ConfirmButton } from "../components/confirm.js";
import { Listing } from "../components/listing.js";
import { attempt } from "../components/notice.js";
import { Table } from "../components/table.js";
import { Ago } from "../components/time.js";

const EVENTS = ["pause.opened", "pause.extended", "pause.needs_review", "pause.settled", "pause.resumed", "pause.cancelled", "pause.superseded", "pause.failed", "run.completed", "run.failed", "run.cancelled", "run.timeout"];
const STATES = ["pending", "delivered", "dead"];
/** @type {Record<string, string>} */
const KINDS = { pending: "waits", delivered: "good", dead: "bad" };

export function Webhooks() {
  return html`
    <div class="section-head"><h2>${t("settings_tab.webhooks")}</h2></div>
    <p class="dim">${t("webhooks.help")}</p>
    ${may("installation") ? html`<${Receivers} />` : html`<p class="dim">${t("webhooks.receivers_right")}</p>`}
    <${Deliveries} />
  `;
}

function Receivers() {
  const list = usePages(path("config", "webhooks"), { limit: undefined });
  const [editing, setEditing] = useKept("webhook receiver", /** @type {string | null} */ (null)); // "": a new one
  const entry = editing === "" ? {} : list.items?.find((one) => one.name === editing)?.entry;
  const close = () => setEditing(undefined);
  const drop = (/** @type {string} */ name) => attempt(() => remove(path("config", "webhooks", name)).then(() => keep(draftOf(name), undefined)), t("webhooks.removed")).then(list.reload);
  const columns = [
    { key: "name", label: t("settings.name"), cell: (/** @type {any} */ one) => html`<span><strong><bdi>${one.name}</bdi></strong>${one.problem && html`<br /><span class="wrong" dir="auto">${one.problem}</span>`}</span>` },
    { key: "url", label: t("webhooks.url"), wide: true, value: (/** @type {any} */ one) => one.entry?.url, cell: (/** @type {any} */ one) => html`<code>${one.entry?.url}</code>` },
    { key: "events", label: t("webhooks.events"), sort: false, cell: (/** @type {any} */ one) => one.entry?.events?.join(", ") || t("webhooks.all_events") },
    { key: "do", label: "", sort: false, cell: (/** @type {any} */ one) => html`<span class="row-buttons">
      ${one.entry && html`<button aria-label=${`${t("webhooks.change")}: ${one.name}`} onClick=${() => setEditing(one.name)}>${t("webhooks.change")}</button>`}
      <${ConfirmButton} label=${t("members.remove")} name=${one.name} question=${t("webhooks.remove_sure")} act=${() => drop(one.name)} /></span>` },
  ];
  return html`
    <div class="section-head"><h3>${t("webhooks.receivers")}</h3>${!entry && html`<button onClick=${() => setEditing("")}>${t("webhooks.new")}</button>`}</div>
    ${entry && html`<${ReceiverForm} key=${editing} entry=${entry} done=${() => { close(); list.reload(); }} cancel=${close} />`}
    <${Listing} list=${list} empty=${html`<p class="dim">${t("webhooks.no_receivers")}</p>`}>
      <${Table} label=${t("webhooks.receivers")} columns=${columns} rows=${list.items ?? []} keyOf=${(/** @type {any} */ one) => one.name} />
    </${Listing}>
  `;
}

/** By which name the form of a receiver is kept. @param {string} name */
const draftOf = (name) => `webhook ${name}`;

/** @param {any} entry */
const valuesOf = (entry) => ({ name: "", url: entry.url ?? "", secret: entry.secret ?? "", network: (entry.network ?? []).join(", "), events: entry.events ?? [] });

/** Where the secret is might be the secret itself, by mistake: it is not kept. */
const KEPT = ["name", "url", "network", "events"];

/** @param {{entry: any, done: () => void, cancel: () => void}} props */
function ReceiverForm({ entry, done, cancel }) {
  const form = useDraft(draftOf(entry.name ?? ""), valuesOf(entry), () => plainFields(KEPT)), { events } = form.values;
  const [busy, setBusy] = useState(false);
  const submit = async (/** @type {any} */ event) => {
    event.preventDefault();
    const given = new FormData(event.target), text = (/** @type {string} */ name) => String(given.get(name) ?? "").trim();
    const name = entry.name ?? text("name");
    const body = { ...entry, name, url: text("url"), secret: text("secret"), events: given.getAll("events"), network: text("network").split(/[,\s]+/).filter(Boolean) };
    setBusy(true);
    const made = await attempt(() => (entry.name ? put(path("config", "webhooks", name), body) : post(path("config", "webhooks"), body)), t("webhooks.stored"));
    setBusy(false);
    if (!made) return;
    form.forget();
    done();
  };
  return html`
    <form class="card form" onSubmit=${submit}>
      ${!entry.name && html`<label class="field"><span>${t("settings.name")}</span><input ...${input(form, "name")} required maxlength="100" pattern="[A-Za-z0-9_.\\-]+" /></label>`}
      <label class="field"><span>${t("webhooks.url")}</span><input ...${input(form, "url")} required placeholder="https://" /></label>
      <label class="field"><span>${t("webhooks.secret")}</span><input ...${input(form, "secret")} required placeholder="secret://NAME, env:NAME, file:PATH" /></label>
      <label class="field"><span>${t("webhooks.network")}</span><input ...${input(form, "network")} placeholder=${t("webhooks.network_help")} /></label>
      <fieldset class="rights"><legend>${t("webhooks.events")} (${t("webhooks.none_is_all")})</legend>
        ${EVENTS.map((name) => html`<label key=${name}><input type="checkbox" name="events" value=${name} checked=${events.includes(name)} onChange=${() => form.set("events", EVENTS.filter((one) => (one === name) !== events.includes(one)))} /><code>${name}</code></label>`)}
      </fieldset>
      <div class="row-buttons"><button class="primary" disabled=${busy}>${t("webhooks.store")}</button><button type="button" onClick=${() => (form.forget(), cancel())}>${t("dialog.cancel")}</button></div>
    </form>
  `;
}

function Deliveries() {
  const { query } = here.value;
  const status = STATES.includes(query.get("status") ?? "") ? query.get("status") : "";
  const list = usePages("/v1/webhooks/deliveries", { status, webhook: query.get("webhook") ?? "" }, 10);
  const resend = (/** @type {any} */ one) => attempt(() => post(path("webhooks", "deliveries", one.id, "resend"), {}), t("webhooks.resent")).then(list.reload);
  const columns = [
    { key: "created_at", label: t("audit.when"), cell: (/** @type {any} */ one) => html`<${Ago} at=${one.created_at} />` },
    { key: "webhook", label: t("webhooks.receiver"), cell: (/** @type {any} */ one) => html`<a href=${`/settings/webhooks?${new URLSearchParams({ webhook: one.webhook })}`}><bdi>${one.webhook}</bdi></a>` },
    { key: "event", label: t("webhooks.event"), cell: (/** @type {any} */ one) => html`<code>${one.event}</code>` },
    { key: "status", label: t("runs.status"), cell: (/** @type {any} */ one) => html`<span class="status ${KINDS[one.status]}">${t(`delivery.${one.status}`)}</span>` },
    { key: "attempts", label: t("webhooks.tries"), figures: true },
    { key: "error", label: t("webhooks.answer"), wide: true, sort: false, cell: (/** @type {any} */ one) => html`<bdi>${[one.http_status, one.error].filter(Boolean).join(" ")}</bdi>` },
    { key: "next_at", label: t("webhooks.next"), cell: (/** @type {any} */ one) => (one.next_at ? moment(one.next_at) : "") },
    { key: "do", label: "", sort: false, cell: (/** @type {any} */ one) => one.status !== "pending" && html`<button aria-label=${`${t("webhooks.resend")}: ${one.event}`} onClick=${() => resend(one)}>${t("webhooks.resend")}</button>` },
  ];
  return html`
    <div class="section-head"><h3>${t("webhooks.deliveries")}</h3>
      <label class="field"><span>${t("runs.status")}</span><select onChange=${(/** @type {any} */ event) => setQuery({ status: event.target.value })}>
        <option value="">${t("runs.any")}</option>
        ${STATES.map((name) => html`<option key=${name} value=${name} selected=${name === status}>${t(`delivery.${name}`)}</option>`)}</select></label>
      ${query.get("webhook") && html`<button class="chip" onClick=${() => setQuery({ webhook: null })}><bdi>${query.get("webhook")}</bdi> ×</button>`}
    </div>
    <${Listing} list=${list} empty=${html`<p class="dim">${t("webhooks.no_deliveries")}</p>`}>
      <${Table} label=${t("webhooks.deliveries")} columns=${columns} rows=${list.items ?? []} keyOf=${(/** @type {any} */ one) => one.id} />
    </${Listing}>
  `;
}
