// What an agent may use, store and spend, and how it treats messages and crashes: in words, and as fields.
import { html } from "../lib/html.js";
import { attendanceFields, budgetFields, concurrencyFields, deliveryFields, quotaFields, rateFields, recoveryFields, resourceFields, stateFields } from "../lib/agent_fields.js";
import { t } from "../lib/i18n.js";
import { ApprovalRules } from "./approval_rules.js";
import { BudgetGrid } from "./budget_grid.js";
import { Fold } from "./fold.js";
import { PolicyWords } from "./policy_words.js";
import { SchemaForm } from "./schema_form.js";

/** @typedef {import("../lib/schema_check.js").Mistakes} Mistakes */

/**
 * @param {{spec: any, change: (spec: any) => void, errors: Mistakes, all: boolean, disabled: boolean}} props
 */
export function AgentPolicy({ spec, change, errors, all, disabled }) {
  const policy = spec.resource_policy;
  const part = (/** @type {string} */ name) => (/** @type {any} */ values) => change({ ...spec, [name]: { ...spec[name], ...values } });
  const inPolicy = (/** @type {any} */ values) => change({ ...spec, resource_policy: { ...policy, ...values } });
  const form = (/** @type {any[]} */ fields, /** @type {any} */ values, /** @type {(values: any) => void} */ set, /** @type {string} */ place) =>
    html`<${SchemaForm} fields=${fields} values=${values} change=${set} place=${place} errors=${errors} all=${all} disabled=${disabled} id="policy" />`;
  const section = (/** @type {string} */ name, /** @type {any} */ body, /** @type {string[]} */ places) => html`
    <${Fold} key=${name} card title=${html`<h3>${t(`agents.chapter.${name}`)}</h3>`} open=${places.some((place) => hasIn(errors, place))}>${body}</${Fold}>`;
  return html`
    <div class="two-up">
      <div>
        ${section("uses", form(resourceFields(), policy, inPolicy, "resource_policy"), ["resource_policy.allow"])}
        ${section("approvals", html`<${ApprovalRules} rules=${policy.tool_approval} change=${(/** @type {any} */ rules) => inPolicy({ tool_approval: rules })}
          place="resource_policy.tool_approval" errors=${errors} all=${all} disabled=${disabled} />`, ["resource_policy.tool_approval"])}
        ${section("storage", form(stateFields(), spec.state_policy, part("state_policy"), "state_policy"), ["state_policy"])}
        ${section("limits", html`
          <${BudgetGrid} budget=${policy.budget} change=${(/** @type {any} */ budget) => inPolicy({ budget })} place="resource_policy.budget" errors=${errors} disabled=${disabled} />
          ${form(budgetFields(), policy.budget, (budget) => inPolicy({ budget }), "resource_policy.budget")}
          <h4>${t("agents.rate")}</h4>
          ${form(rateFields(), policy.rate, (rate) => inPolicy({ rate }), "resource_policy.rate")}
          <h4>${t("agents.quota")}</h4>
          ${form(quotaFields(), policy.quota, (quota) => inPolicy({ quota }), "resource_policy.quota")}
        `, ["resource_policy.budget", "resource_policy.rate", "resource_policy.quota"])}
        ${section("people", html`
          ${form(attendanceFields(), spec, (values) => change({ ...spec, ...values }), "")}
          ${form(deliveryFields(), spec.delivery_policy, part("delivery_policy"), "delivery_policy")}
        `, ["delivery_policy", "idle_timeout", "allow_questions"])}
        ${section("messages", form(concurrencyFields(), spec.concurrency, part("concurrency"), "concurrency"), ["concurrency"])}
        ${section("recovery", form(recoveryFields(), spec.recovery, part("recovery"), "recovery"), ["recovery"])}
      </div>
      <section class="card words-card" tabindex="0" aria-label=${t("agents.in_words")}>
        <h2>${t("agents.in_words")}</h2>
        <${PolicyWords} spec=${spec} />
      </section>
    </div>
  `;
}

/** @param {Mistakes} errors @param {string} place */
const hasIn = (errors, place) => [...errors.keys()].some((key) => key.startsWith(place));
