// API keys: those of the workspace, and a person's own.
import { html, useState } from "../lib/html.js";
import { path, post, remove } from "../lib/api.js";
import { moment } from "../lib/format.js";
import { usePages } from "../lib/fresh.js";
import { t } from "../lib/i18n.js";
import { useShown } from "../lib/kept_state.js";
import { may, session } from "../lib/session.js";
import { ConfirmButton } from "../components/confirm.js";
import { Listing } from "../components/listing.js";
import { attempt } from "../components/notice.js";
import { ShownOnce } from "../components/shown_once.js";
import { Empty } from "../components/states.js";
import { Table } from "../components/table.js";
import { Ago } from "../components/time.js";
import { KeyForm } from "./key_form.js";

/** @param {any} key */
const stateOf = (key) => (key.revoked_at ? "revoked" : key.expires_at && key.expires_at < Date.now() / 1000 ? "expired" : "valid");

/** Keys of the workspace; `personal`: of the person who has signed in. @param {{personal?: boolean}} props */
export function Keys({ personal = false }) {
  const to = personal ? "/v1/auth/keys" : "/v1/keys";
  const list = usePages(to);
  const draft = personal ? "new personal key" : "new key", [making, setMaking] = useShown(draft), [all, setAll] = useState(false);
  const [made, setMade] = useState(/** @type {any} */ (null));
  const make = async (/** @type {any} */ body) => {
    const found = await attempt(() => post(to, body));
    if (!found) return;
    setMaking(false);
    setMade(found);
    list.reload();
    return found;
  };
  const rows = (list.items ?? []).filter((key) => all || stateOf(key) === "valid");
  return html`
    <div class="section-head"><h2>${t(personal ? "keys.personal" : "settings_tab.keys")}</h2>
      ${!personal && html`<label class="check-line"><input type="checkbox" checked=${all} onChange=${() => setAll(!all)} /> ${t("keys.show_ended")}</label>`}
      ${!making && html`<button class="primary" onClick=${() => setMaking(true)}>${t("keys.new")}</button>`}
    </div>
    <p class="dim">${t(personal ? "keys.personal_help" : "keys.help")}</p>
    ${made?.key && html`<${ShownOnce} secret=${made.key} title=${t("keys.made", { name: made.record.name })} close=${() => setMade(null)} />`}
    ${making && html`<${KeyForm} draft=${draft} make=${make} cancel=${() => setMaking(false)} personal=${personal} />`}
    <${Listing} list=${{ ...list, items: list.items && rows }} empty=${html`<${Empty} title=${t("keys.none")} text=${t("keys.none_text")} />`}>
      <${KeyTable} rows=${rows} to=${to} personal=${personal} changed=${list.reload} rotate=${make} />
    </${Listing}>
  `;
}

/** @param {{rows: any[], to: string, personal: boolean, changed: () => Promise<void>, rotate: (body: any) => Promise<any>}} props */
function KeyTable({ rows, to, personal, changed, rotate }) {
  const revoke = async (/** @type {any} */ key) => {
    await attempt(() => remove(`${to}/${encodeURIComponent(key.key_id)}`), t("keys.revoked"));
    await changed();
  };
  /** Another key like it, for as long; the old one is good until it is revoked. @param {any} key */
  const again = (key) => rotate({
    name: key.name, rights: key.rights, ...(!personal && { subject: key.subject, roles: key.roles }), ...(key.plugin && { plugin: key.plugin, rights: [], roles: [] }),
    expires_at: key.expires_at ? Math.floor(Date.now() / 1000 + (key.expires_at - key.created_at)) : undefined,
  });
  const columns = [
    { key: "name", label: t("keys.name"), wide: true, cell: (/** @type {any} */ key) => html`<strong><bdi>${key.name}</bdi></strong>
      <a class="dim small" href=${`/audit?${new URLSearchParams({ target: key.key_id })}`}><code>${key.key_id}</code></a>` },
    ...(personal ? [] : [{ key: "subject", label: t("settings.subject"), cell: (/** @type {any} */ key) => html`<span><bdi>${key.subject}</bdi>${key.roles.length > 0 && html` <span class="dim">${key.roles.join(", ")}</span>`}</span>` }]),
    { key: "rights", label: t("settings.rights"), value: (/** @type {any} */ key) => key.rights.length, cell: (/** @type {any} */ key) => html`<${Rights} rights=${key.rights} plugin=${key.plugin} />` },
    { key: "created_at", label: t("keys.created"), cell: (/** @type {any} */ key) => html`<${Ago} at=${key.created_at} />` },
    { key: "expires_at", label: t("keys.expires"), cell: (/** @type {any} */ key) => html`<${Ends} record=${key} />` },
    { key: "do", label: "", sort: false, cell: (/** @type {any} */ key) => stateOf(key) === "valid" && (personal || may("admin")) && html`<span class="row-buttons">
        <${ConfirmButton} label=${t("keys.rotate")} name=${key.name} question=${t("keys.rotate_sure")} danger=${false} act=${() => again(key)} />
        ${key.key_id === session.value?.key_id ? html`<span class="dim">${t("keys.yours")}</span>` : html`<${ConfirmButton} label=${t("keys.revoke")} name=${key.name} question=${t("keys.revoke_sure")} act=${() => revoke(key)} />`}
      </span>` },
  ];
  return html`<${Table} label=${t("settings_tab.keys")} columns=${columns} rows=${rows} keyOf=${(/** @type {any} */ key) => key.key_id} />`;
}

const FEW = 4;

/** @param {{rights: string[], plugin?: string | null}} props */
function Rights({ rights, plugin }) {
  if (plugin) return html`<span>${t("keys.of_plugin")} <bdi>${plugin}</bdi></span>`;
  if (rights.length <= FEW) return html`<span class="rights-shown">${rights.join(", ")}</span>`;
  return html`<details class="rights-shown"><summary>${t("keys.rights_count", { count: rights.length })}</summary>${rights.join(", ")}</details>`;
}

/** @param {{record: any}} props */
function Ends({ record }) {
  const state = stateOf(record);
  if (state === "revoked") return html`<span class="status">${t("keys.state_revoked")}</span>`;
  if (state === "expired") return html`<span class="status">${t("keys.state_expired")}</span>`;
  return html`<span>${record.expires_at ? moment(record.expires_at) : t("keys.never")}</span>`;
}

/** Front-end tokens that are good now. */
export function Tokens() {
  const list = usePages("/v1/tokens", {}, 10);
  const revoke = (/** @type {any} */ token) => attempt(() => remove(path("tokens", token.token_id)), t("tokens.revoked")).then(list.reload);
  const columns = [
    { key: "agent", label: t("runs.agent"), cell: (/** @type {any} */ token) => html`<a href=${`/runs?${new URLSearchParams({ agent: token.agent })}`}><bdi>${token.agent}</bdi></a>` },
    { key: "conversation_id", label: t("runs.conversation"), wide: true, cell: (/** @type {any} */ token) => html`<a href=${`/runs?${new URLSearchParams({ conversation: token.conversation_id })}`}><bdi>${token.conversation_id}</bdi></a>` },
    { key: "subject", label: t("settings.subject"), cell: (/** @type {any} */ token) => html`<bdi>${token.subject}</bdi>` },
    { key: "origins", label: t("tokens.origins"), sort: false, cell: (/** @type {any} */ token) => token.origins.join(", ") || t("tokens.any_origin") },
    { key: "made_by", label: t("tokens.made_by"), cell: (/** @type {any} */ token) => html`<a href=${`/audit?${new URLSearchParams({ target: token.token_id })}`}><code>${token.made_by}</code></a>` },
    { key: "expires_at", label: t("keys.expires"), cell: (/** @type {any} */ token) => moment(token.expires_at) },
    { key: "do", label: "", sort: false, cell: (/** @type {any} */ token) => html`<${ConfirmButton} label=${t("keys.revoke")} name=${token.token_id} question=${t("tokens.revoke_sure")} act=${() => revoke(token)} />` },
  ];
  return html`
    <div class="section-head"><h2>${t("settings_tab.tokens")}</h2></div>
    <p class="dim">${t("tokens.help")}</p>
    <${Listing} list=${list} empty=${html`<${Empty} title=${t("tokens.none")} text=${t("tokens.none_text")}><pre class="commands">hostler tokens create AGENT</pre></${Empty}>`}>
      <${Table} label=${t("settings_tab.tokens")} columns=${columns} rows=${list.items ?? []} keyOf=${(/** @type {any} */ token) => token.token_id} />
    </${Listing}>
  `;
}
