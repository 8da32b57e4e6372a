// A platform action of a run: its risk and what became of it in a row, and the facts of it when it is opened.
import { html } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { riskOf } from "../lib/platform_actions.js";
import { may } from "../lib/session.js";

/** @typedef {import("../lib/steps.js").Step} Step */

/** @type {Record<string, string>} */
const OUTCOMES = { done: "good", refused: "bad", failed: "bad", in_doubt: "waits", denied: "", unsupported: "", asked: "" };

/** @param {{step: Step, doubt: boolean}} props `doubt`: it was begun, and nothing tells its end. */
export function ActionMarks({ step, doubt }) {
  const outcome = doubt ? "in_doubt" : (step.outcome ?? "asked");
  return html`
    <span class="mark risk">${t(`action_risk.${riskOf(step.title)}`)}</span>
    <span class="mark became ${OUTCOMES[outcome] ?? ""}">${t(`action_outcome.${outcome}`)}</span>
  `;
}

/** @param {{step: Step}} props */
export function ActionFacts({ step }) {
  const outcome = step.outcome ?? "asked", risk = riskOf(step.title), later = step.sequence !== undefined;
  const facts = [
    [t("action.about"), step.note || t("action.no_chat")],
    [t("action.risk"), t(`action_risk.${risk}`)],
    [t("action.decision"), decision(step, outcome, risk)],
    [t("action.outcome"), later && outcome === "asked" && !may("audit:read") ? t("action.in_audit") : t(`action_outcome.${outcome}`)],
    ...(step.text ? [[t("action.reason"), step.text]] : []),
  ];
  return html`<dl class="facts">${facts.map(([name, value]) => [html`<dt>${name}</dt>`, html`<dd dir="auto">${value}</dd>`])}</dl>`;
}

/** @param {Step} step @param {string} outcome @param {string} risk */
function decision(step, outcome, risk) {
  if (outcome === "refused" || outcome === "denied") return t(`action.decided.${outcome}`);
  if (step.approved) return t("action.decided.approved", { who: step.approved });
  if (outcome === "unsupported") return t("action.decided.nobody");
  if (outcome === "asked" && step.sequence !== undefined) return t("action.decided.unknown");
  return t(risk === "dangerous" ? "action.decided.waived" : "action.decided.none");
}
