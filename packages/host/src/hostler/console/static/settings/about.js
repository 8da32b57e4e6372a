// The version, and what holds here: the report of `hostler doctor`.
import { html } from "../lib/html.js";
import { get } from "../lib/api.js";
import { useFresh } from "../lib/fresh.js";
import { t } from "../lib/i18n.js";
import { may } from "../lib/session.js";
import { Failure, Loading } from "../components/states.js";
import { Ago } from "../components/time.js";

/** @type {Record<string, string>} */
const KINDS = { ok: "good", note: "waits", wrong: "bad" };

export function About() {
  const health = useFresh((signal) => get("/healthz", {}, signal), []);
  return html`
    <div class="section-head"><h2>${t("settings_tab.about")}</h2></div>
    <section class="card"><dl class="facts">
      <dt>${t("run.version")}</dt><dd>${health.data?.version ?? "…"}</dd>
      <dt>${t("about.documentation")}</dt><dd><a href="/docs" target="_blank" rel="noopener">${t("about.api")}</a></dd>
    </dl></section>
    ${may("installation") ? html`<${Doctor} />` : html`<p class="dim">${t("about.doctor_right")}</p>`}
  `;
}

function Doctor() {
  const fresh = useFresh((signal) => get("/v1/doctor", {}, signal), [], 60);
  const found = /** @type {any[] | undefined} */ (fresh.data?.items);
  const count = (/** @type {string} */ verdict) => found?.filter((one) => one.verdict === verdict).length ?? 0;
  return html`
    <div class="section-head"><h3>${t("about.holds")}</h3>
      ${found && html`<span class="status ${count("wrong") ? "bad" : "good"}">${t(count("wrong") ? "about.wrong" : "about.well", { count: count("wrong") })}</span>`}
      <button onClick=${fresh.reload}>${t("about.look")}</button>
    </div>
    ${fresh.error && html`<${Failure} error=${fresh.error} retry=${fresh.reload} />`}
    ${!found && !fresh.error && html`<${Loading} />`}
    ${found && html`
      <ul class="plain-list card findings" aria-label=${t("about.holds")}>
        ${["wrong", "note", "ok"].flatMap((verdict) => found.filter((one) => one.verdict === verdict).map((one, place) => html`<li key=${`${verdict} ${one.what} ${place}`} class="finding">
          <span class="status ${KINDS[verdict]}">${t(`verdict.${verdict}`)}</span><strong>${one.what}</strong><span dir="auto">${one.text}</span></li>`))}
      </ul>
      <p class="dim foot">${fresh.offline ? html`<span class="offline" role="status">${t("state.reconnecting")}</span>` : html`${t("usage.read")} <${Ago} at=${fresh.at} />`}</p>`}
  `;
}
