// Members of the workspace, and who is invited.
import { html, useState } from "../lib/html.js";
import { path, post, put, remove } from "../lib/api.js";
import { usePages } from "../lib/fresh.js";
import { plainFields } from "../lib/form_changes.js";
import { t } from "../lib/i18n.js";
import { input, useDraft } from "../lib/kept_state.js";
import { ROLES } from "../lib/rights.js";
import { may, session } from "../lib/session.js";
import { ConfirmButton } from "../components/confirm.js";
import { Listing } from "../components/listing.js";
import { attempt } from "../components/notice.js";
import { Empty } from "../components/states.js";
import { Table } from "../components/table.js";
import { Ago } from "../components/time.js";

const roles = () => ROLES.filter((role) => role !== "administrator" || may("installation"));

/** @param {{value: string, name?: string, label?: string, change: (role: string) => void}} props */
const Role = ({ value, name, label, change }) => html`
  <select name=${name} aria-label=${label} value=${value} onChange=${(/** @type {any} */ event) => change(event.target.value)}>
    ${[...new Set([...roles(), value])].map((role) => html`<option key=${role} value=${role} selected=${role === value}>${t(`role.${role}`)}</option>`)}
  </select>
`;

export function Members() {
  const list = usePages("/v1/members");
  const change = (/** @type {any} */ member, /** @type {string} */ role) => attempt(() => put(path("members", member.member_id), { role }), t("members.changed")).then(list.reload);
  const drop = (/** @type {any} */ member) => attempt(() => remove(path("members", member.member_id)), t("members.removed")).then(list.reload);
  const mayChange = (/** @type {any} */ member) => member.role !== "administrator" || may("installation");
  const columns = [
    { key: "name", label: t("settings.name"), wide: true, cell: (/** @type {any} */ one) => html`<span><strong><bdi>${one.name}</bdi></strong>${one.member_id === session.value?.member_id && html` <span class="dim">${t("members.you")}</span>`}
      ${one.email && one.email !== one.name && html`<br /><span class="dim"><bdi>${one.email}</bdi></span>`}</span>` },
    { key: "role", label: t("members.role"), cell: (/** @type {any} */ one) => (mayChange(one) ? html`<${Role} value=${one.role} label=${`${t("members.role")}: ${one.name}`} change=${(/** @type {string} */ role) => change(one, role)} />` : t(`role.${one.role}`)) },
    { key: "source", label: t("members.source"), cell: (/** @type {any} */ one) => t(`member_source.${one.source}`) },
    { key: "groups", label: t("members.groups"), sort: false, cell: (/** @type {any} */ one) => one.groups.join(", ") },
    { key: "signed_in_at", label: t("members.signed_in"), cell: (/** @type {any} */ one) => (one.signed_in_at ? html`<${Ago} at=${one.signed_in_at} />` : html`<span class="status waits">${t("members.invited")}</span>`) },
    { key: "do", label: "", sort: false, cell: (/** @type {any} */ one) => html`<span class="row-buttons">
      ${one.subject && html`<a class="button" href=${`/audit?${new URLSearchParams({ actor: one.subject })}`} aria-label=${`${t("members.did")}: ${one.name}`}>${t("members.did")}</a>`}
      ${mayChange(one) && html`<${ConfirmButton} label=${t("members.remove")} name=${one.name} question=${t("members.remove_sure")} act=${() => drop(one)} />`}</span>` },
  ];
  return html`
    <div class="section-head"><h2>${t("settings_tab.members")}</h2></div>
    <p class="dim">${t("members.help")}</p>
    <${Invite} done=${list.reload} />
    <${Listing} list=${list} empty=${html`<${Empty} title=${t("members.none")} text=${t("members.none_text")} />`}>
      <${Table} label=${t("settings_tab.members")} columns=${columns} rows=${list.items ?? []} keyOf=${(/** @type {any} */ one) => one.member_id} />
    </${Listing}>
    <details class="card"><summary>${t("members.roles_title")}</summary>
      <dl class="facts">${ROLES.map((role) => html`<dt key=${role}>${t(`role.${role}`)}</dt><dd>${t(`role_may.${role}`)}</dd>`)}</dl>
    </details>
  `;
}

/** @param {{done: () => Promise<void>}} props */
function Invite({ done }) {
  const [busy, setBusy] = useState(false);
  const form = useDraft("invited member", { email: "", role: "reader" }, (values) => plainFields(Object.keys(values))), { email, role } = form.values;
  const submit = async (/** @type {any} */ event) => {
    event.preventDefault();
    setBusy(true);
    const made = await attempt(() => post("/v1/members", { email: email.trim(), role }), t("members.added"));
    setBusy(false);
    if (!made) return;
    form.forget();
    await done();
  };
  return html`
    <form class="card line-form" onSubmit=${submit} aria-label=${t("members.invite")}>
      <label class="field"><span>${t("members.email")}</span><input ...${input(form, "email")} type="email" required maxlength="254" autocomplete="off" /></label>
      <label class="field"><span>${t("members.role")}</span><${Role} name="role" value=${role} change=${(/** @type {string} */ next) => form.set("role", next)} /></label>
      <button class="primary" disabled=${busy}>${t("members.invite")}</button>
    </form>
  `;
}
