// Makes a schedule, or changes one.
import { html, useState } from "../lib/html.js";
import { path, post, put } from "../lib/api.js";
import { plainFields } from "../lib/form_changes.js";
import { t } from "../lib/i18n.js";
import { input, useDraft } from "../lib/kept_state.js";
import { attempt } from "./notice.js";

const WAYS = ["cron", "every", "at"];
const MISFIRES = ["skip", "once", "all"];

/** @param {any} entry */
const wayOf = (entry) => WAYS.find((name) => entry?.[name] !== null && entry?.[name] !== undefined) ?? "cron";

/** @param {any} entry */
const textsOf = (entry) => ({
  name: "", way: wayOf(entry), ...Object.fromEntries(WAYS.map((name) => [name, String(entry?.[name] ?? "")])),
  timezone: entry?.timezone ?? Intl.DateTimeFormat().resolvedOptions().timeZone, agent: entry?.agent ?? "", text: entry?.text ?? "",
  conversation: entry?.conversation_id ?? "", misfire: entry?.misfire ?? "once",
});

/** `draft`: by which name it is kept. @param {{draft: string, entry?: any, done: () => void, cancel: () => void}} props */
export function ScheduleForm({ draft, entry, done, cancel }) {
  const stored = textsOf(entry), form = useDraft(draft, stored, () => plainFields(Object.keys(stored)));
  const { way, misfire } = form.values;
  const [busy, setBusy] = useState(false);
  const submit = async (/** @type {any} */ event) => {
    event.preventDefault();
    const given = new FormData(event.target), text = (/** @type {string} */ name) => String(given.get(name) ?? "").trim();
    const name = entry?.name ?? text("name");
    const when = { cron: null, every: null, at: null, [way]: way === "every" ? Number(text("when")) : text("when") };
    const own = text("conversation") ? { new_conversation: false } : {};
    const body = { ...entry, ...own, ...when, name, timezone: text("timezone") || "UTC", agent: text("agent") || null, text: text("text") || null, conversation_id: text("conversation") || null, misfire: text("misfire") };
    setBusy(true);
    const made = await attempt(() => (entry ? put(path("schedules", name), body) : post("/v1/schedules", body)), t("schedules.stored"));
    setBusy(false);
    if (!made) return;
    form.forget();
    done();
  };
  return html`
    <form class="card form" onSubmit=${submit}>
      ${!entry && html`<label class="field"><span>${t("settings.name")}</span><input ...${input(form, "name")} required maxlength="100" pattern="[A-Za-z0-9][A-Za-z0-9_.\\-]*" /></label>`}
      <label class="field"><span>${t("schedules.way")}</span><select name="way" onChange=${(/** @type {any} */ event) => form.set("way", event.target.value)}>
        ${WAYS.map((name) => html`<option key=${name} value=${name} selected=${name === way}>${t(`schedule_way.${name}`)}</option>`)}</select></label>
      <label class="field"><span>${t(`schedule_value.${way}`)}</span><input key=${way} ...${input(form, way)} name="when" required type=${way === "every" ? "number" : "text"} min=${way === "every" ? "1" : null} step=${way === "every" ? "any" : null} placeholder=${t(`schedule_example.${way}`)} /></label>
      ${way !== "every" && html`<label class="field"><span>${t("schedules.timezone")}</span><input ...${input(form, "timezone")} placeholder="Europe/Berlin" /></label>`}
      <label class="field"><span>${t("runs.agent")}</span><input ...${input(form, "agent")} placeholder=${t("schedules.any_agent")} /></label>
      <label class="field"><span>${t("schedules.text")}</span><textarea ...${input(form, "text")} rows="2" dir="auto"></textarea></label>
      <label class="field"><span>${t("schedules.conversation")}</span><input ...${input(form, "conversation")} placeholder=${t("schedules.new_each")} /></label>
      <label class="field"><span>${t("schedules.misfire")}</span><select name="misfire" onChange=${(/** @type {any} */ event) => form.set("misfire", event.target.value)}>
        ${MISFIRES.map((name) => html`<option key=${name} value=${name} selected=${name === misfire}>${t(`misfire.${name}`)}</option>`)}</select></label>
      <div class="row-buttons"><button class="primary" disabled=${busy}>${t("webhooks.store")}</button><button type="button" onClick=${() => (form.forget(), cancel())}>${t("dialog.cancel")}</button></div>
    </form>
  `;
}
