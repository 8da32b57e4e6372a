// The form of a new key.
import { html, useState } from "../lib/html.js";
import { plainFields } from "../lib/form_changes.js";
import { t } from "../lib/i18n.js";
import { input, useDraft } from "../lib/kept_state.js";
import { RIGHTS, USUAL } from "../lib/rights.js";
import { may } from "../lib/session.js";

const DAY = 86400;
const NEVER = "0";
const LENGTHS = ["1", "7", "30", "90", "365"];

/** @param {string} text */
const names = (text) => text.split(/[,\s]+/).filter(Boolean);

const begin = () => ({ name: "", subject: "", roles: "", days: "90", rights: USUAL.filter((right) => may(right)) });

/**
 * `draft`: by which name it is kept. `personal`: it acts as the person who has signed in, and always expires.
 * @param {{draft: string, make: (body: any) => Promise<any>, cancel: () => void, personal?: boolean}} props
 */
export function KeyForm({ draft, make, cancel, personal = false }) {
  const form = useDraft(draft, begin(), (values) => plainFields(Object.keys(values)));
  const rights = form.values.rights.filter((right) => may(right));
  const [wrong, setWrong] = useState(""), [busy, setBusy] = useState(false);
  const choose = (/** @type {string} */ right) => form.set("rights", rights.includes(right) ? rights.filter((one) => one !== right) : [...rights, right]);
  const submit = async (/** @type {any} */ event) => {
    event.preventDefault();
    const given = new FormData(event.target), text = (/** @type {string} */ name) => String(given.get(name) ?? "").trim();
    if (!text("name")) return setWrong(t("keys.name_missing"));
    if (!rights.length) return setWrong(t("keys.rights_missing"));
    setWrong("");
    setBusy(true);
    const days = Number(text("days"));
    const made = await make({
      name: text("name"), rights, expires_at: days ? Math.floor(Date.now() / 1000 + days * DAY) : undefined,
      ...(!personal && { subject: text("subject") || undefined, roles: names(text("roles")) }),
    });
    setBusy(false);
    if (made) form.forget();
  };
  return html`
    <form class="card form" onSubmit=${submit} aria-label=${t("keys.new")}>
      <h2>${t("keys.new")}</h2>
      <label class="field"><span>${t("keys.name")}</span><input ...${input(form, "name")} maxlength="200" required autocomplete="off" /></label>
      ${!personal && html`
        <label class="field"><span>${t("settings.subject")}</span><input ...${input(form, "subject")} maxlength="200" autocomplete="off" placeholder=${t("keys.subject_help")} /></label>
        <label class="field"><span>${t("keys.roles")}</span><input ...${input(form, "roles")} autocomplete="off" placeholder=${t("keys.roles_help")} /></label>
      `}
      <label class="field"><span>${t("keys.expires")}</span>
        <select name="days" onChange=${(/** @type {any} */ event) => form.set("days", event.target.value)}>
          ${[...LENGTHS, ...(personal ? [] : [NEVER])].map((days) => html`<option key=${days} value=${days} selected=${days === form.values.days}>${days === NEVER ? t("keys.never") : t("keys.in_days", { count: Number(days) })}</option>`)}
        </select>
      </label>
      <fieldset class="rights">
        <legend>${t("settings.rights")}</legend>
        ${RIGHTS.filter((right) => may(right)).map((right) => html`<label key=${right}><input type="checkbox" checked=${rights.includes(right)} onChange=${() => choose(right)} /><code>${right}</code></label>`)}
      </fieldset>
      ${(rights.includes("admin") || rights.includes("installation")) && html`<p class="waits-text">${t(rights.includes("installation") ? "keys.installation_warning" : "keys.admin_warning")}</p>`}
      ${wrong && html`<p class="wrong" role="alert">${wrong}</p>`}
      <div class="row-buttons"><button class="primary" disabled=${busy}>${t("keys.create")}</button><button type="button" onClick=${() => (form.forget(), cancel())}>${t("dialog.cancel")}</button></div>
    </form>
  `;
}
