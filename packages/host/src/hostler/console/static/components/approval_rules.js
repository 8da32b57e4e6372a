// Which calls of tools wait for people: rules by name or pattern.
import { html, useState } from "../lib/html.js";
import { approvalFields } from "../lib/agent_fields.js";
import { choices } from "../lib/choices.js";
import { t } from "../lib/i18n.js";
import { placeOf } from "../lib/schema_fields.js";
import { Icon } from "./icon.js";
import { SchemaForm } from "./schema_form.js";

/** @typedef {import("../lib/schema_check.js").Mistakes} Mistakes */

/** @param {{rules: Record<string, any>, change: (rules: Record<string, any>) => void, place: string, errors: Mistakes, all: boolean, disabled: boolean}} props */
export function ApprovalRules({ rules, change, place, errors, all, disabled }) {
  const [name, setName] = useState("");
  const add = () => {
    const tool = name.trim();
    if (tool && !Object.hasOwn(rules, tool)) change({ ...rules, [tool]: "required" });
    setName("");
  };
  return html`<div class="stack-wide">
    ${Object.entries(rules).map(([tool, rule]) => html`<${Rule} key=${tool} tool=${tool} rule=${rule} place=${placeOf(place, tool)} errors=${errors} all=${all} disabled=${disabled}
      set=${(/** @type {any} */ next) => change({ ...rules, [tool]: next })}
      drop=${() => change(Object.fromEntries(Object.entries(rules).filter(([one]) => one !== tool)))} />`)}
    ${!disabled && html`<div class="adding">
      <input list="approval-tools" value=${name} placeholder=${t("agents.rule_for")} aria-label=${t("agents.rule_for")} autocomplete="off" spellcheck=${false}
        onInput=${(/** @type {any} */ event) => setName(event.target.value)} onKeyDown=${(/** @type {any} */ event) => event.key === "Enter" && !event.isComposing && (event.preventDefault(), add())} />
      <datalist id="approval-tools">${choices("tools").map((one) => html`<option key=${one.value} value=${one.value} />`)}</datalist>
      <button type="button" disabled=${!name.trim()} onClick=${add}>${t("agents.add_rule")}</button>
    </div>`}
  </div>`;
}

/** @param {{tool: string, rule: any, set: (rule: any) => void, drop: () => void, place: string, errors: Mistakes, all: boolean, disabled: boolean}} props */
function Rule({ tool, rule, set, drop, place, errors, all, disabled }) {
  const given = typeof rule === "string" ? { approval: rule } : rule;
  const kind = given.approval === "never" ? "never" : typeof rule === "string" ? "required" : "custom";
  const choose = (/** @type {string} */ next) => set(next === "custom" ? { approval: "required" } : next);
  const { approval, ...rest } = given;
  return html`<fieldset class="rule" data-place=${place}>
    <legend><bdi>${tool}</bdi></legend>
    <div class="line-of">
      <select class="grow" aria-label=${t("agents.rule_of", { tool })} disabled=${disabled} onChange=${(/** @type {any} */ event) => choose(event.target.value)}>
        ${["required", "never", "custom"].map((name) => html`<option key=${name} value=${name} selected=${name === kind}>${t(`agents.rule.${name}`)}</option>`)}
      </select>
      ${!disabled && html`<button type="button" class="quiet" aria-label=${t("form.remove", { name: tool })} onClick=${drop}><${Icon} name="close" /></button>`}
    </div>
    ${errors.has(place) && html`<p class="wrong">${errors.get(place)}</p>`}
    ${kind === "custom" && html`<div class="nested"><${SchemaForm} fields=${approvalFields()} values=${rest} change=${(/** @type {any} */ next) => set({ approval: "required", ...next })}
      place=${place} errors=${errors} all=${all} disabled=${disabled} id=${`rule-${tool.replace(/\W+/g, "-")}`} /></div>`}
  </fieldset>`;
}
