// Checks the hash chains of events and audit log, and shows what was checked.
import { html, useState } from "../lib/html.js";
import { get } from "../lib/api.js";
import { duration, moment, number } from "../lib/format.js";
import { t } from "../lib/i18n.js";
import { may } from "../lib/session.js";
import { Failure } from "./states.js";
import { Table } from "./table.js";

export function VerifyChains() {
  const [state, setState] = useState(/** @type {any} */ (null));
  if (!may("admin")) return html`<p class="dim">${t("audit.verify_right")}</p>`;
  const verify = () => {
    setState("busy");
    get("/v1/audit/verification").then(setState, setState);
  };
  return html`
    <section class="card" aria-live="polite">
      <div class="section-head">
        <h2>${t("audit.verify_title")}</h2>
        <button class="primary" disabled=${state === "busy"} onClick=${verify}>${t(state === "busy" ? "audit.verifying" : "audit.verify")}</button>
      </div>
      <p class="dim">${t("audit.verify_help")}</p>
      ${state instanceof Error && html`<${Failure} error=${state} />`}
      ${state?.chains && html`<${Result} result=${state} />`}
    </section>
  `;
}

/** @param {{result: any}} props */
function Result({ result }) {
  const columns = [
    { key: "workspace", label: t("settings.workspace"), cell: (/** @type {any} */ one) => html`<bdi>${one.workspace}</bdi>` },
    { key: "chain", label: t("audit.chain"), cell: (/** @type {any} */ one) => t(`chain.${one.chain}`) },
    { key: "checked", label: t("audit.rows"), figures: true, cell: (/** @type {any} */ one) => number(one.checked) },
    { key: "deleted", label: t("audit.emptied"), figures: true, cell: (/** @type {any} */ one) => number(one.deleted) },
    { key: "head", label: t("audit.head"), wide: true, cell: (/** @type {any} */ one) => html`<code>${one.seq} ${one.head}</code>` },
    { key: "broken", label: t("audit.result"), value: (/** @type {any} */ one) => one.broken ?? "", cell: (/** @type {any} */ one) =>
      one.broken ? html`<span class="wrong"><bdi>${one.broken}</bdi></span>` : html`<span class="status good">${t("audit.whole")}</span>` },
  ];
  return html`
    <p class=${result.ok ? "verdict good" : "verdict bad"} role="status"><strong>${t(result.ok ? "audit.all_whole" : "audit.broken")}</strong></p>
    ${result.problem && html`<p class="wrong" dir="auto">${result.problem}</p>`}
    <p>${t("audit.compared", { heads: number(result.heads), anchors: number(result.anchors) })}
      ${!result.anchor_file && ` ${t("audit.no_anchors")}`}
      <span class="dim"> ${moment(result.began_at)} · ${duration(result.seconds)}</span></p>
    <${Table} label=${t("audit.verify_title")} columns=${columns} rows=${result.chains} keyOf=${(/** @type {any} */ one) => `${one.chain} ${one.workspace}`} />
  `;
}
