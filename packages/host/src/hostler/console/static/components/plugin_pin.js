// What of a plugin was confirmed, and what waits for a confirmation.
import { html } from "../lib/html.js";
import { path, post } from "../lib/api.js";
import { moment } from "../lib/format.js";
import { t } from "../lib/i18n.js";
import { may } from "../lib/session.js";
import { attempt } from "./notice.js";

/** @param {{plugin: any, again: () => Promise<void>}} props */
export function PluginPin({ plugin, again }) {
  const { pin } = plugin;
  const confirm = (/** @type {boolean} */ upgrade) =>
    attempt(() => post(path("plugins", plugin.plugin, "confirm"), { digest: pin.digest, upgrade }), t("pin.confirmed")).then(again);
  const by = pin.confirmed_by === null ? t("pin.first", { moment: moment(pin.recorded_at) }) : t("pin.by", { who: pin.confirmed_by, moment: moment(pin.confirmed_at) });
  return html`
    <section class=${`card ${pin.changed ? "attention" : ""}`}>
      <h2>${pin.changed ? t("pin.changed") : t("pin.title")}</h2>
      ${pin.changed && html`
        <p dir="auto">${pin.changed}</p>
        <p class="dim">${t("pin.changed_help")}</p>
        ${may("installation")
          ? html`<div class="buttons"><button class="primary" onClick=${() => confirm(false)}>${t("pin.confirm")}</button></div>`
          : html`<p class="dim">${t("pin.right")}</p>`}
      `}
      <details open=${Boolean(pin.changed)}>
        <summary>${t("pin.details")}</summary>
        <dl class="facts">
          <dt>${t("pin.state")}</dt><dd dir="auto">${by}</dd>
          <dt>${t("pin.files")}</dt><dd>${pin.files ? t("pin.all_files") : t("pin.requirements")}</dd>
          <dt>${t("pin.digest")}</dt><dd><code>${pin.digest}</code></dd>
          <dt>${t("pin.requires")}</dt><dd>${pin.requires.length ? pin.requires.map((/** @type {string} */ one) => html`<code key=${one}>${one}</code> `) : t("pin.nothing")}</dd>
          ${pin.packages.length > 0 && html`<dt>${t("pin.packages")}</dt><dd>${pin.packages.map((/** @type {any} */ one) => html`<code key=${one.name} title=${(one.digests).join("\n")}>${one.name} ${one.version}</code> `)}</dd>`}
        </dl>
        ${may("installation") && !pin.changed && pin.requires.length > 0 && html`<button onClick=${() => confirm(true)} title=${t("pin.upgrade_help")}>${t("pin.upgrade")}</button>`}
      </details>
    </section>
  `;
}
