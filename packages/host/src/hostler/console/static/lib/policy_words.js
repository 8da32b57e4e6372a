// What an agent may and may not do, as sentences: pure but for the reader's language.
import { DEFAULTS, QUANTITIES, SPANS, limitName } from "./agent_fields.js";
import { duration, number, size } from "./format.js";
import { language, t } from "./i18n.js";
import { unfinishedText } from "./schema_fields.js";

/**
 * @typedef {{kind: "may" | "asks" | "not" | "note", text: string}} Sentence
 * @typedef {{name: string, sentences: Sentence[]}} Chapter
 */

/** @param {string} text @returns {Sentence} */
const may = (text) => ({ kind: "may", text });
/** @param {string} text @returns {Sentence} */
const not = (text) => ({ kind: "not", text });
/** @param {string} text @returns {Sentence} */
const note = (text) => ({ kind: "note", text });

const SHOWN_NAMES = 12;

/** @param {any[]} names @param {"conjunction" | "disjunction"} [type] */
function listed(names, type = "conjunction") {
  const shown = names.slice(0, SHOWN_NAMES).map((name) => String(name));
  if (names.length > SHOWN_NAMES) shown.push(t("agents.say.more", { count: names.length - SHOWN_NAMES }));
  return new Intl.ListFormat(language.value, { type }).format(shown);
}

/** A number of the draft; a text where it is none yet. @param {any} value @param {(value: number) => string} shown */
const amount = (value, shown = number) => (typeof value === "number" ? shown(value) : unfinishedText(value) ?? String(value));

/**
 * All that the policies of an agent say.
 * @param {any} spec
 * @returns {Chapter[]}
 */
export function wordsOf(spec) {
  const policy = spec.resource_policy;
  return [
    { name: "uses", sentences: uses(policy) },
    { name: "approvals", sentences: approvals(policy.tool_approval) },
    { name: "storage", sentences: [...storage(policy), ...state(spec.state_policy)] },
    { name: "limits", sentences: [...budget(policy.budget), ...rate(policy.rate), ...quota(policy.quota)] },
    { name: "people", sentences: [...attendance(spec), ...delivery(spec.delivery_policy)] },
    { name: "messages", sentences: concurrency(spec.concurrency) },
    { name: "recovery", sentences: recovery(spec.recovery) },
  ];
}

/** @param {any} policy */
function uses(policy) {
  const found = [];
  for (const [name, key] of [["allowed_model_ids", "models"], ["allowed_tool_names", "tools"], ["allowed_kb_ids", "knowledge"], ["allowed_skill_names", "skills"], ["allowed_agents", "agents"]]) {
    const names = policy[name];
    if (names?.length) found.push(may(t(`agents.say.${key}.some`, { names: listed(names) })));
    else if (names || name === "allowed_agents") found.push(not(t(`agents.say.${key}.none`)));
    else found.push(may(t(`agents.say.${key}.open`)));
  }
  found.push(policy.allow_client_tools ? may(t("agents.say.client_tools")) : not(t("agents.say.no_client_tools")));
  found.push(policy.allow_schedules ? may(t("agents.say.schedules")) : not(t("agents.say.no_schedules")));
  return [...found, ...actions(policy)];
}

/** @param {any} policy @returns {Sentence[]} */
function actions(policy) {
  const found = policy.allowed_actions?.length ? [may(t("agents.say.actions.some", { names: listed(policy.allowed_actions) }))] : [not(t("agents.say.actions.none"))];
  if (policy.actions_without_approval.length) found.push(may(t("agents.say.actions.unasked", { names: listed(policy.actions_without_approval) })));
  if (policy.actions_anywhere) found.push(may(t("agents.say.actions.anywhere")));
  for (const [action, who] of Object.entries(policy.action_actors)) {
    found.push(not(who.length ? t("agents.say.actions.actors", { action, who: listed(who, "disjunction") }) : t("agents.say.actions.nobody", { action })));
  }
  return found;
}

/** @param {Record<string, any>} rules */
function approvals(rules) {
  const found = Object.entries(rules).flatMap(([tool, rule]) => approval(tool, rule));
  return found.length ? found : [note(t("agents.say.no_rules"))];
}

/** @param {string} tool @param {any} rule @returns {Sentence[]} */
function approval(tool, rule) {
  const given = typeof rule === "string" ? { approval: rule } : rule;
  const all = { approval: "required", subjects: ["requester", "role:admin"], min_approvals: 1, separation_of_duty: false, expires_in: 1800, editable: false, locked: [], on_expiry: "resume", ...given };
  if (all.approval === "never") return [may(t("agents.say.never", { tool }))];
  const asks = (/** @type {string} */ text) => /** @type {Sentence} */ ({ kind: "asks", text });
  const who = listed(all.subjects.map(subject), "disjunction");
  const found = [asks(all.min_approvals === 1 ? t("agents.say.required", { tool, who }) : t("agents.say.required_many", { tool, who, count: amount(all.min_approvals) }))];
  if (all.separation_of_duty) found.push(asks(t("agents.say.separation", { tool })));
  if (all.editable) found.push(asks(all.locked.length ? t("agents.say.editable_but", { tool, names: listed(all.locked) }) : t("agents.say.editable", { tool })));
  found.push(asks(t(all.on_expiry === "cancel" ? "agents.say.expiry_cancel" : "agents.say.expiry_resume", { tool, time: amount(all.expires_in, span) })));
  return found;
}

/** Who a subject of a rule is. @param {any} text */
export function subject(text) {
  const [kind, ...rest] = String(text).split(":"), name = rest.join(":");
  if (kind === "requester") return t("agents.who.requester");
  if (kind === "*") return t("agents.who.anyone");
  if (text === "role:admin") return t("agents.who.admin");
  return name && ["role", "user", "group", "member"].includes(kind) ? t(`agents.who.${kind}`, { name }) : String(text);
}

/** A time without needless parts. @param {number} seconds */
const span = (seconds) => {
  for (const [unit, size] of /** @type {[string, number][]} */ ([["day", 86400], ["hour", 3600], ["minute", 60]])) {
    if (seconds >= size && seconds % size === 0) return new Intl.NumberFormat(language.value, { style: "unit", unit, unitDisplay: "long" }).format(seconds / size);
  }
  return duration(seconds);
};

/** @param {any} policy */
const storage = (policy) => [
  policy.allow_plugin_storage ? may(t("agents.say.plugin_storage")) : not(t("agents.say.no_plugin_storage")),
  policy.allow_workspace_storage ? may(t("agents.say.workspace_storage")) : not(t("agents.say.no_workspace_storage")),
  policy.allow_cross_conversation_history ? may(t("agents.say.history")) : not(t("agents.say.no_history")),
  policy.allow_cross_account_history ? may(t("agents.say.account_history")) : not(t("agents.say.no_account_history")),
];

/** @param {any} policy */
const state = (policy) =>
  policy.enable_state && policy.state_scopes.length
    ? [
        may(t("agents.say.state", { scopes: listed(policy.state_scopes.map((/** @type {string} */ scope) => t(`agents.option.state_scopes.${scope}`))) })),
        policy.actor_across_accounts ? may(t("agents.say.across_accounts")) : not(t("agents.say.by_account")),
      ]
    : [not(t("agents.say.no_state"))];

/** @param {any} budget */
function budget(budget) {
  const found = [];
  for (const scope of SPANS) {
    for (const quantity of QUANTITIES) {
      const most = budget[limitName(quantity, scope)];
      if (most === null || most === undefined) continue;
      const what = quantity === "seconds" ? t("agents.say.seconds", { amount: amount(most, span) }) : t(`agents.say.${quantity}`, { amount: amount(most) });
      found.push(not(t(`agents.say.per_${scope}`, { what })));
    }
  }
  if (!found.length) return [note(t("agents.say.no_budget"))];
  found.push(note(t(`agents.say.exceeded_${budget.on_exceeded}`, { who: listed(budget.approvers.map(subject), "disjunction"), time: amount(budget.expires_in, span) })));
  if (budget.on_exceeded === "ask") found.push(note(t(`agents.say.denied_${budget.on_denied}`)));
  return found;
}

/** @param {any} rate */
const rate = (rate) => (rate.calls_per_second === null ? [] : [not(t("agents.say.rate", { amount: amount(rate.calls_per_second) }))]);

/** @param {any} quota */
function quota(quota) {
  const own = Object.entries(DEFAULTS.resource_policy.quota).filter(([name, usual]) => quota[name] !== usual);
  const found = own.map(([name]) => {
    const what = t(`agents.field.${name}`);
    if (quota[name] === null) return may(t("agents.say.no_quota", { what }));
    return not(t("agents.say.quota", { what, amount: amount(quota[name], name.includes("bytes") ? size : number) }));
  });
  return own.length < Object.keys(DEFAULTS.resource_policy.quota).length ? [...found, note(t(own.length ? "agents.say.other_quotas" : "agents.say.quotas"))] : found;
}

/** @param {any} spec */
function attendance(spec) {
  const found = [spec.allow_questions ? may(t("agents.say.questions")) : not(t("agents.say.no_questions"))];
  if (spec.idle_timeout !== null) found.push(not(t("agents.say.idle", { time: amount(spec.idle_timeout, span) })));
  return found;
}

/** A chat as it is written, and its thread. @param {string | {channel: string, chat_id: string, thread_id?: string | null}} chat */
const chatName = (chat) => (typeof chat === "string" ? chat : `${chat.channel}/${chat.chat_id}${chat.thread_id ? ` (${chat.thread_id})` : ""}`);

/** @param {any} policy */
function delivery(policy) {
  const found = [policy.enable_streaming ? may(t("agents.say.streaming")) : not(t("agents.say.no_streaming"))];
  if (!policy.enable_reply) found.push(not(t("agents.say.no_reply")));
  if (policy.ask_in.length) found.push(may(t("agents.say.ask_in", { names: policy.ask_in.map(chatName).join(", ") })));
  if (policy.max_message_size !== null) found.push(not(t("agents.say.message_size", { amount: amount(policy.max_message_size) })));
  return found;
}

/** @param {any} rules */
function concurrency(rules) {
  const found = [note(t(`agents.say.busy_${rules.on_busy}`))];
  if (rules.on_busy === "steer") found.push(note(t(`agents.say.leftover_${rules.leftover}`)));
  found.push(note(t(`agents.say.pause_${rules.on_pause}`)));
  if (rules.debounce) found.push(note(t("agents.say.debounce", { time: amount(rules.debounce, span) })));
  if (rules.max_runs !== null) found.push(not(t("agents.say.max_runs", { count: amount(rules.max_runs) })));
  return found;
}

/** @param {any} rules */
const recovery = (rules) => [
  note(t(`agents.say.crash_${rules.on_crash ?? "unset"}`)),
  note(t("agents.say.attempts", { count: amount(rules.max_attempts) })),
];
