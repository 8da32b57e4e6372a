// The bounds of a budget: quantities by spans.
import { html } from "../lib/html.js";
import { QUANTITIES, SPANS, limitName } from "../lib/agent_fields.js";
import { t } from "../lib/i18n.js";
import { placeOf } from "../lib/schema_fields.js";
import { NumberInput } from "./schema_inputs.js";

/** @typedef {import("../lib/schema_check.js").Mistakes} Mistakes */

/** @param {{budget: any, change: (budget: any) => void, place: string, errors: Mistakes, disabled: boolean}} props */
export function BudgetGrid({ budget, change, place, errors, disabled }) {
  return html`<div class="bounds-frame">
    <table class="bounds" role="table" aria-label=${t("agents.budget")}>
      <thead role="rowgroup"><tr role="row"><td role="cell"></td>${SPANS.map((span) => html`<th key=${span} role="columnheader" scope="col">${t(`agents.span.${span}`)}</th>`)}</tr></thead>
      <tbody role="rowgroup">
        ${QUANTITIES.map((quantity) => html`<tr key=${quantity} role="row">
          <th role="rowheader" scope="row">${t(`agents.quantity.${quantity}`)}</th>
          ${SPANS.map((span) => {
            const name = limitName(quantity, span), at = placeOf(place, name), id = `budget-${name}`;
            const label = `${t(`agents.quantity.${quantity}`)}, ${t(`agents.span.${span}`)}`;
            const whole = quantity !== "cost" && quantity !== "seconds";
            return html`<td key=${span} role="cell" data-place=${at} data-label=${t(`agents.span.${span}`)}>
              <label class="hidden" for=${id}>${label}</label>
              <${NumberInput} field=${{ name, label, help: "", kind: whole ? "integer" : "number", required: false, nullable: true, blank: "–" }}
                value=${budget[name] ?? null} own=${budget[name]} set=${(/** @type {any} */ value) => change({ ...budget, [name]: value })} id=${id}
                described=${errors.has(at) ? `${id}-wrong` : null} invalid=${errors.has(at) ? "true" : null} disabled=${disabled} />
              ${errors.has(at) && html`<p class="wrong" id=${`${id}-wrong`}>${errors.get(at)}</p>`}
            </td>`;
          })}
        </tr>`)}
      </tbody>
    </table>
  </div>`;
}
