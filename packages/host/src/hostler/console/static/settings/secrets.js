// Stored secrets: set, replaced and removed. No value is ever shown, or kept in the page.
import { html, useState } from "../lib/html.js";
import { Problem, put, remove, withQuery, path } from "../lib/api.js";
import { usePages } from "../lib/fresh.js";
import { t } from "../lib/i18n.js";
import { may } from "../lib/session.js";
import { ConfirmButton } from "../components/confirm.js";
import { CopyButton } from "../components/copy_button.js";
import { Listing } from "../components/listing.js";
import { attempt } from "../components/notice.js";
import { Empty } from "../components/states.js";
import { Table } from "../components/table.js";
import { Ago } from "../components/time.js";
import { here, setQuery } from "../lib/router.js";

export function Secrets() {
  const owner = here.value.query.get("owner") === "installation" && may("installation") ? "installation" : "workspace";
  const list = usePages("/v1/secrets", { owner });
  const [editing, setEditing] = useState(/** @type {string | null} */ (null));
  const to = (/** @type {string} */ name, /** @type {Record<string, any>} */ more = {}) => withQuery(path("secrets", name), { owner, ...more });
  const drop = async (/** @type {any} */ secret, force = false) => {
    await attempt(() => remove(to(secret.name, { force: force || undefined })), t("secrets.removed"));
    await list.reload();
  };
  const columns = [
    { key: "name", label: t("settings.name"), wide: true, cell: (/** @type {any} */ one) => html`<span><strong><bdi>${one.name}</bdi></strong> <code class="dim">${one.reference}</code>${one.problem && html`<br /><span class="wrong" dir="auto">${one.problem}</span>`}</span>` },
    { key: "version", label: t("run.version"), figures: true },
    { key: "set_at", label: t("secrets.set"), cell: (/** @type {any} */ one) => html`<span><${Ago} at=${one.set_at} /> <a class="dim" href=${`/audit?${new URLSearchParams({ actor: one.set_by })}`}><bdi>${one.set_by}</bdi></a></span>` },
    { key: "used_at", label: t("secrets.used"), cell: (/** @type {any} */ one) => (one.used_at ? html`<span><${Ago} at=${one.used_at} /> <bdi class="dim">${one.used_by}</bdi></span>` : t("secrets.never")) },
    { key: "referred_by", label: t("secrets.referred"), sort: false, cell: (/** @type {any} */ one) => html`<bdi>${one.referred_by.join(", ")}</bdi>` },
    { key: "do", label: "", sort: false, cell: (/** @type {any} */ one) => html`<span class="row-buttons">
      <${CopyButton} text=${one.reference} label=${t("secrets.copy")} />
      ${may("secrets:write") && html`<button aria-label=${`${t("secrets.replace")}: ${one.name}`} onClick=${() => setEditing(one.name)}>${t("secrets.replace")}</button>
        <${ConfirmButton} label=${t("members.remove")} name=${one.name} question=${t(one.referred_by.length ? "secrets.remove_used" : "secrets.remove_sure")} act=${() => drop(one, one.referred_by.length > 0)} />`}</span>` },
  ];
  return html`
    <div class="section-head"><h2>${t("settings_tab.secrets")}</h2>
      ${may("installation") && html`<label class="field"><span>${t("secrets.owner")}</span><select onChange=${(/** @type {any} */ event) => setQuery({ owner: event.target.value === "workspace" ? null : event.target.value })}>
        ${["workspace", "installation"].map((one) => html`<option key=${one} value=${one} selected=${one === owner}>${t(`secret_of.${one}`)}</option>`)}</select></label>`}
      ${may("secrets:write") && editing === null && html`<button class="primary" onClick=${() => setEditing("")}>${t("secrets.new")}</button>`}
    </div>
    <p class="dim">${t("secrets.help")}</p>
    ${editing !== null && html`<${SecretForm} key=${editing} name=${editing} to=${to} done=${() => { setEditing(null); list.reload(); }} cancel=${() => setEditing(null)} />`}
    <${Listing} list=${list} empty=${html`<${Empty} title=${t("secrets.none")} text=${t("secrets.none_text")} />`}>
      <${Table} label=${t("settings_tab.secrets")} columns=${columns} rows=${list.items ?? []} keyOf=${(/** @type {any} */ one) => one.name} />
    </${Listing}>
  `;
}

/** @param {{name: string, to: (name: string, more?: Record<string, any>) => string, done: () => void, cancel: () => void}} props */
function SecretForm({ name, to, done, cancel }) {
  const [wrong, setWrong] = useState(""), [busy, setBusy] = useState(false);
  const submit = async (/** @type {any} */ event) => {
    event.preventDefault();
    const form = event.target, given = new FormData(form), chosen = name || String(given.get("name")).trim();
    setBusy(true);
    try {
      await put(to(chosen, { existing: name ? true : undefined }), { value: String(given.get("value")) });
      form.reset();
      done();
    } catch (error) {
      setWrong(error instanceof Problem ? error.message : t("state.unreachable"));
    }
    setBusy(false);
  };
  return html`
    <form class="card form" onSubmit=${submit} autocomplete="off">
      <h2>${name ? t("secrets.replace_of", { name }) : t("secrets.new")}</h2>
      ${!name && html`<label class="field"><span>${t("settings.name")}</span><input name="name" required maxlength="100" autocomplete="off" spellcheck=${false} /></label>`}
      <label class="field"><span>${t("secrets.value")}</span><input name="value" type="password" required autocomplete="new-password" spellcheck=${false} /></label>
      ${wrong && html`<p class="wrong" role="alert" dir="auto">${wrong}</p>`}
      <div class="row-buttons"><button class="primary" disabled=${busy}>${t("secrets.store")}</button><button type="button" onClick=${cancel}>${t("dialog.cancel")}</button></div>
    </form>
  `;
}
