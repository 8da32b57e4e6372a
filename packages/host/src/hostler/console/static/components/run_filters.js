// The filters of the list of runs; the address keeps them.
import { html, useState } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { here, setQuery } from "../lib/router.js";
import { STATUSES } from "./status.js";

const PERIODS = /** @type {[string, number][]} */ ([["hour", 3600], ["day", 86400], ["week", 604800], ["month", 2_592_000]]);
const RARE = ["conversation", "min_cost", "tool", "since", "until"];

/** What the API is asked for. @param {URLSearchParams} query @returns {import("../lib/run_pages.js").Filters} */
export function filtersOf(query) {
  const at = (/** @type {string} */ name) => query.get(name) ?? "";
  const cost = Number(at("min_cost").replace(",", "."));
  return {
    status: query.getAll("status"), agent: at("agent"), conversation_id: at("conversation"), tool: at("tool"), text: at("text"),
    min_cost: at("min_cost") && cost >= 0 ? String(cost) : "", since: momentOf(at("since")) || sinceOf(at("period")), until: momentOf(at("until")),
  };
}

/** The moment a period began, rounded to minutes so that the list is not read anew all the time. @param {string} name */
function sinceOf(name) {
  const found = PERIODS.find(([known]) => known === name);
  return found ? String(Math.floor((Date.now() / 1000 - found[1]) / 60) * 60) : "";
}

/** Local time of a field, as UTC epoch seconds. @param {string} text */
function momentOf(text) {
  const at = text ? new Date(text).getTime() / 1000 : NaN;
  return Number.isFinite(at) && at >= 0 ? String(at) : "";
}

export function RunFilters() {
  const { query } = here.value;
  const [more, setMore] = useState(RARE.some((name) => query.has(name)));
  const set = (/** @type {string} */ name) => (/** @type {any} */ event) => setQuery({ [name]: event.target.value.trim() });
  const field = (/** @type {string} */ name, /** @type {string} */ label, /** @type {string} */ type, /** @type {Record<string, any>} */ given = {}) => html`
    <label class="field"><span>${t(label)}</span><input type=${type} name=${name} value=${query.get(name) ?? ""} maxlength="200" ...${given} onChange=${set(name)} /></label>`;
  return html`
    <form class="filters" role="search" onSubmit=${(/** @type {Event} */ event) => event.preventDefault()}>
      <label class="field"><span>${t("runs.status")}</span>
        <select name="status" onChange=${(/** @type {any} */ event) => setQuery({ status: event.target.value })}>
          <option value="">${t("runs.any")}</option>
          ${STATUSES.map((name) => html`<option key=${name} value=${name} selected=${query.get("status") === name}>${t(`status.${name}`)}</option>`)}
        </select>
      </label>
      <label class="field"><span>${t("runs.period")}</span>
        <select name="period" onChange=${(/** @type {any} */ event) => setQuery({ period: event.target.value, since: null, until: null })}>
          <option value="">${t("runs.always")}</option>
          ${PERIODS.map(([name]) => html`<option key=${name} value=${name} selected=${query.get("period") === name}>${t(`period.${name}`)}</option>`)}
        </select>
      </label>
      ${field("agent", "runs.agent", "search", { placeholder: t("runs.any") })}
      ${field("text", "runs.text", "search", { placeholder: t("runs.text_help") })}
      <button type="button" class="quiet" aria-expanded=${more} onClick=${() => setMore(!more)}>${t("runs.more")}</button>
      ${more && html`
        ${field("conversation", "runs.conversation", "search", { placeholder: t("runs.any") })}
        ${field("tool", "runs.tool", "search", { placeholder: t("runs.any") })}
        ${field("min_cost", "runs.min_cost", "text", { inputmode: "decimal" })}
        ${field("since", "runs.since", "datetime-local")}
        ${field("until", "runs.until", "datetime-local")}
      `}
    </form>
  `;
}
