// Which events are an agent's.
import { html } from "../lib/html.js";
import { bindingFields, scopeFields } from "../lib/agent_fields.js";
import { t } from "../lib/i18n.js";
import { EventQuestion } from "./event_question.js";
import { SchemaForm } from "./schema_form.js";

/** @param {{spec: any, change: (spec: any) => void, errors: import("../lib/schema_check.js").Mistakes, all: boolean, disabled: boolean, dirty: boolean}} props */
export function AgentBindings({ spec, change, errors, all, disabled, dirty }) {
  const [types, filters, priority, labels] = bindingFields();
  const form = (/** @type {any[]} */ fields, /** @type {any} */ values, /** @type {(values: any) => void} */ set, /** @type {string} */ place) =>
    html`<${SchemaForm} fields=${fields} values=${values} change=${set} place=${place} errors=${errors} all=${all} disabled=${disabled} id="bindings" />`;
  const set = (/** @type {any} */ values) => change({ ...spec, ...values });
  return html`
    <section class="card">
      <h2>${t("agents.bindings")}</h2>
      <div class="schema-form">
        ${form([types], spec, set, "")}
        ${form(scopeFields(), spec.scope, (scope) => set({ scope: ["bot", "channel", "conversation"].includes(scope.type) ? scope : { ...scope, id: scope.type === spec.scope.type ? scope.id : null } }), "scope")}
        ${form([filters, priority, labels], spec, set, "")}
      </div>
    </section>
    ${dirty && html`<p class="help">${t("agents.asks_saved")}</p>`}
    <${EventQuestion} mine=${spec.name} />
  `;
}
