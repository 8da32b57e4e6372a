// What the reader chooses for this browser, and its sessions.
import { html, useEffect, useState } from "../lib/html.js";
import { get, path, remove } from "../lib/api.js";
import { moment } from "../lib/format.js";
import { language, languages, speak, t } from "../lib/i18n.js";
import { session } from "../lib/session.js";
import { THEMES, theme, wear } from "../lib/theme.js";
import { Failure, Loading } from "../components/states.js";
import { attempt } from "../components/notice.js";
import { Ago } from "../components/time.js";

/** @typedef {{session_id: string, provider: string, agent: string, current: boolean, created_at: number,
 *   seen_at: number, expires_at: number}} SessionRecord */

export function Page() {
  return html`
    <header class="head"><h1>${t("page.settings")}</h1></header>
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
        <dt>${t("settings.workspace")}</dt><dd><code>${session.value?.workspace_id}</code></dd>
        <dt>${t("settings.rights")}</dt><dd>${(session.value?.rights ?? []).join(", ")}</dd>
      </dl>
    </section>
    <${Sessions} />
  `;
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
  const [found, setFound] = useState(/** @type {SessionRecord[] | Error | null} */ (null));
  const look = () => get("/v1/auth/sessions").then((page) => setFound(page.items), setFound);
  useEffect(() => void look(), []);
  const end = (/** @type {string} */ id) => attempt(() => remove(path("auth", "sessions", id)), t("settings.ended")).then(look);
  return html`
    <section class="card">
      <h2>${t("settings.sessions")}</h2>
      ${found === null && html`<${Loading} />`}
      ${found instanceof Error && html`<${Failure} error=${found} retry=${look} />`}
      ${Array.isArray(found) &&
      html`<ul class="plain-list">
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
      </ul>`}
    </section>
  `;
}
