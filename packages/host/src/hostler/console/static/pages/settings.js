// What the reader chooses for this browser, its sessions, and the settings of workspace and host, each at its address.
import { html } from "../lib/html.js";
import { path, remove } from "../lib/api.js";
import { moment } from "../lib/format.js";
import { usePages } from "../lib/fresh.js";
import { language, languages, speak, t } from "../lib/i18n.js";
import { here } from "../lib/router.js";
import { enter, may, session } from "../lib/session.js";
import { THEMES, theme, wear } from "../lib/theme.js";
import { Listing } from "../components/listing.js";
import { attempt } from "../components/notice.js";
import { PathTabs } from "../components/path_tabs.js";
import { Failure, NoRight } from "../components/states.js";
import { Ago } from "../components/time.js";
import { About } from "../settings/about.js";
import { Keys, Tokens } from "../settings/keys.js";
import { Members } from "../settings/members.js";
import { Secrets } from "../settings/secrets.js";
import { Backup, Encryption, Quotas, Retention } from "../settings/storage.js";
import { Webhooks } from "../settings/webhooks.js";

/** @typedef {{session_id: string, provider: string, agent: string, current: boolean, created_at: number,
 *   seen_at: number, expires_at: number}} SessionRecord */

const SESSION_SECONDS = 10;

/** @type {{name: string, right?: string, signed?: boolean, view: any}[]} */
const TABS = [
  { name: "", view: You },
  { name: "keys", view: KeysTab },
  { name: "tokens", view: Tokens },
  { name: "members", right: "admin", view: Members },
  { name: "secrets", right: "secrets:read", view: Secrets },
  { name: "quotas", right: "usage:read", view: Quotas },
  { name: "webhooks", right: "admin", view: Webhooks },
  { name: "retention", right: "installation", view: Retention },
  { name: "backup", right: "installation", view: Backup },
  { name: "encryption", right: "installation", view: Encryption },
  { name: "about", view: About },
];

/** @param {{tab?: string}} props */
export function Page({ tab = "" }) {
  const shown = TABS.filter((one) => (!one.right || may(one.right)) && (one.name !== "keys" || mayMakeKeys()) && (one.name !== "tokens" || may("admin")));
  const found = TABS.find((one) => one.name === tab), allowed = shown.find((one) => one.name === tab);
  return html`
    <header class="head"><h1>${t("page.settings")}</h1></header>
    <${PathTabs} base="/settings" label=${t("page.settings")} current=${tab} tabs=${shown.map(({ name }) => ({ name, label: t(`settings_tab.${name || "you"}`) }))} />
    ${allowed
      ? html`<${allowed.view} />`
      : found ? html`<${NoRight} right=${found.right ?? "admin"} />`
      : html`<${Failure} title=${t("shell.no_page")} text=${t("shell.no_page_text", { path: here.value.path })} />`}
  `;
}

/** Administrators make keys of the workspace, people who have signed in their own. */
const mayMakeKeys = () => may("admin") || Boolean(session.value?.member_id);

function KeysTab() {
  return html`
    ${session.value?.member_id && html`<${Keys} key="own" personal />`}
    ${may("admin") && html`<${Keys} key="all" />`}
  `;
}

function You() {
  return html`
    <section class="card">
      <h2>${t("settings.looks")}</h2>
      <${Choice} label=${t("settings.language")} value=${language.value} options=${languages} choose=${speak} />
      <${Choice}
        label=${t("settings.theme")} value=${theme.value} choose=${wear}
        options=${THEMES.map((name) => [name, t(`theme.${name}`)])}
      />
    </section>
    <section class="card">
      <h2>${t("settings.you")}</h2>
      <dl class="facts">
        <dt>${t("settings.name")}</dt><dd dir="auto">${session.value?.name}</dd>
        <dt>${t("settings.subject")}</dt><dd><code>${session.value?.subject}</code></dd>
        <dt>${t("settings.workspace")}</dt><dd><${Workspace} /></dd>
        ${session.value?.role && html`<dt>${t("members.role")}</dt><dd>${t(`role.${session.value.role}`)}</dd>`}
        <dt>${t("settings.rights")}</dt><dd>${(session.value?.rights ?? []).join(", ")}</dd>
      </dl>
    </section>
    <${Sessions} />
  `;
}

/** The workspace, with those that the person may go to. */
function Workspace() {
  const others = session.value?.workspaces ?? [];
  if (others.length < 2) return html`<code>${session.value?.workspace_id}</code>`;
  return html`<select aria-label=${t("settings.workspace")} onChange=${(/** @type {any} */ event) => attempt(() => enter(event.target.value))}>
    ${others.map((one) => html`<option key=${one.workspace_id} value=${one.workspace_id} selected=${one.workspace_id === session.value?.workspace_id}>${one.workspace_id}</option>`)}
  </select>`;
}

/** @param {{label: string, value: string, options: string[][], choose: (value: string) => void}} props */
const Choice = ({ label, value, options, choose }) => html`
  <label class="field"><span>${label}</span>
    <select value=${value} onChange=${(/** @type {any} */ event) => choose(event.target.value)}>
      ${options.map(([key, text]) => html`<option key=${key} value=${key} selected=${key === value}>${text}</option>`)}
    </select>
  </label>
`;

function Sessions() {
  const list = usePages("/v1/auth/sessions", { limit: undefined }, SESSION_SECONDS), found = /** @type {SessionRecord[]} */ (list.items ?? []);
  const end = (/** @type {string} */ id) => attempt(() => remove(path("auth", "sessions", id)), t("settings.ended")).then(list.reload);
  return html`
    <section class="card">
      <h2>${t("settings.sessions")}</h2>
      <${Listing} list=${list} empty=${null}><ul class="plain-list">
        ${found.map(
          (one) => html`<li key=${one.session_id} class="line">
            <span class="grow" dir="auto">${one.agent || t("settings.unknown_browser")}</span>
            <span class="dim">${t("settings.seen")} <${Ago} at=${one.seen_at} /></span>
            <span class="dim">${t("settings.until", { moment: moment(one.expires_at) })}</span>
            ${one.current
              ? html`<strong>${t("settings.current")}</strong>`
              : html`<button onClick=${() => end(one.session_id)}>${t("settings.end")}</button>`}
          </li>`,
        )}
      </ul></${Listing}>
    </section>
  `;
}
