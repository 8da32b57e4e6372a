// The ways to a first agent: the demo's, a runner that comes with the host, or the reader's own.
import { html, useEffect, useState } from "../lib/html.js";
import { get, post } from "../lib/api.js";
import { hasNone } from "../lib/choices.js";
import { said, t } from "../lib/i18n.js";
import { go } from "../lib/router.js";
import { may } from "../lib/session.js";
import { CopyButton } from "./copy_button.js";
import { attempt } from "./notice.js";

const COMMANDS = "hostler new runner my-agent\nhostler run ./my-agent \"hello\"\nhostler dev my-agent";

/** `begun`: called when agents were made. @param {{begun?: () => void}} props */
export function FirstStart({ begun }) {
  const [found, setFound] = useState(/** @type {any} */ (null));
  const [busy, setBusy] = useState(false);
  useEffect(() => {
    if (may("plugins:read")) get("/v1/catalogue").then(setFound, () => {});
  }, []);
  const demo = async () => {
    setBusy(true);
    const made = await attempt(() => post("/v1/config", found.demo), t("first.demo_made"));
    setBusy(false);
    if (!made) return;
    begun?.();
    go("/agents/guide");
  };
  const write = may("agents:write");
  return html`
    <section class="first" aria-label=${t("first.title")}>
      <h2>${t("first.title")}</h2>
      <p class="dim">${t("first.text")}</p>
      <div class="first-ways">
        <div class="card">
          <h3>${t("first.demo")}</h3>
          <p>${t("first.demo_text")}</p>
          ${found?.demo ? html`<button class="primary" disabled=${busy} onClick=${demo}>${t(busy ? "first.demo_busy" : "first.demo_do")}</button>`
            : html`<p class="help">${t(may("installation") ? "first.demo_absent" : "first.demo_right")}</p><pre class="commands">hostler demo</pre>`}
        </div>
        <div class="card">
          <h3>${t("first.own")}</h3>
          <p>${t("first.own_text")}</p>
          <div class="copied-block"><pre class="commands" tabindex="0">${COMMANDS}</pre><${CopyButton} text=${COMMANDS} /></div>
        </div>
        <div class="card first-runners">
          <h3>${t("first.runner")}</h3>
          <p>${t("first.runner_text")}</p>
          ${write && hasNone("models") && html`<p class="note">${t("first.no_model")} ${may("installation") ? html`<a class="button" href=${`/models?${new URLSearchParams({ new: "", next: location.pathname + location.search })}`}>${t("form.add_model")}</a>` : t("form.no_models_right")}</p>`}
          ${found && html`<ul class="plain-list">
            ${found.runners.map((/** @type {any} */ one) => html`<li key=${one.runner} class="line">
              <span class="grow"><strong dir="auto">${said(one.label) || one.runner}</strong> <span class="dim" dir="auto">${said(one.description)}</span></span>
              ${write && html`<a class="button" href=${`/agents?new=${encodeURIComponent(one.runner)}`}>${t("first.runner_do")}<span class="hidden"> ${said(one.label)}</span></a>`}
            </li>`)}
          </ul>`}
          ${!write && html`<p class="help">${t("agents.no_right")}</p>`}
        </div>
      </div>
    </section>
  `;
}
