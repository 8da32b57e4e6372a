// The fields of an agent besides its runner's form, with their defaults: pure but for the reader's language.
import { t } from "./i18n.js";

/** @typedef {import("./schema_fields.js").Field} Field */

/** What an agent has where it says nothing else, as the host fills it in. */
export const DEFAULTS = {
  config: {},
  resource_policy: {
    allowed_model_ids: null, allowed_tool_names: null, allowed_kb_ids: null, allowed_skill_names: null,
    allowed_agents: null, allow_plugin_storage: true, allow_workspace_storage: false,
    allow_cross_conversation_history: false, allow_cross_account_history: false, allow_client_tools: true,
    allow_schedules: false,
    allowed_actions: null, actions_without_approval: [], actions_anywhere: false, action_actors: {}, tool_approval: {},
    budget: { on_exceeded: "refuse", on_denied: "refuse", approvers: ["role:admin"], expires_in: 1800 },
    rate: { calls_per_second: null },
    quota: {
      max_artifacts: 100_000, max_artifact_bytes: 17_179_869_184, max_storage_values: 100_000,
      max_storage_bytes: 4_294_967_296, max_state_bytes: 4_294_967_296, max_artifacts_per_run: 1000,
      max_artifact_bytes_per_run: 4_294_967_296, max_storage_values_per_run: 10_000, max_storage_bytes_per_run: 1_073_741_824,
    },
  },
  state_policy: { enable_state: true, state_scopes: ["conversation", "actor"], actor_across_accounts: false },
  delivery_policy: { enable_streaming: true, enable_reply: true, max_message_size: null, ask_in: [] },
  allow_questions: true,
  idle_timeout: null,
  concurrency: { on_busy: "steer", debounce: 0, max_runs: null, on_pause: "hold", leftover: "requeue" },
  recovery: { on_crash: null, max_attempts: 3 },
  event_types: ["message.received"],
  filters: [],
  scope: { type: "workspace", id: null },
  priority: 0,
  worker_labels: [],
  prompts: [],
  enabled: true,
  metadata: {},
};

export const QUANTITIES = ["tokens", "cost", "calls", "tool_calls", "seconds"];
export const SPANS = ["run", "day", "conversation", "conversation_day", "person", "person_day"];
/** @param {string} quantity @param {string} span */
export const limitName = (quantity, span) => `max_${quantity}_per_${span}`;
export const SCOPES = ["workspace", "bot", "channel", "conversation", "agent", "global"];
/** Types of events that platforms send. */
export const EVENT_TYPES = [
  "api.invoked", "friend.request_received", "group.member_joined", "interaction.submitted", "message.received",
  "message.recalled", "schedule.triggered", "webhook.received",
];

/** @param {string} name @param {string} kind @param {Partial<Field>} [more] @returns {Field} */
const field = (name, kind, more = {}) => ({
  name, kind, label: t(`agents.field.${name}`), help: t(`agents.help.${name}`), required: false, literal: "runner", ...more,
});
/** @param {string} name @param {string[]} values */
const options = (name, values) => values.map((value) => ({ value, label: t(`agents.option.${name}.${value}`) }));
/** @param {string} name @param {string} blank @param {string} [list] @returns {Field} */
const names = (name, blank, list) => field(name, "names", { blank: t(`agents.blank.${blank}`), from: list, nullable: true });

/** `resource_policy`, but for approvals and limits. @returns {Field[]} */
export const resourceFields = () => [
  names("allowed_model_ids", "chosen", "models"),
  names("allowed_tool_names", "chosen", "tools"),
  names("allowed_kb_ids", "chosen", "knowledge"),
  names("allowed_skill_names", "all_skills", "skills"),
  names("allowed_agents", "no_agents", "agents"),
  field("allow_plugin_storage", "boolean", { fallback: true }),
  field("allow_workspace_storage", "boolean", { fallback: false }),
  field("allow_cross_conversation_history", "boolean", { fallback: false }),
  field("allow_cross_account_history", "boolean", { fallback: false }),
  field("allow_client_tools", "boolean", { fallback: true }),
  field("allow_schedules", "boolean", { fallback: false }),
  names("allowed_actions", "no_agents"),
  field("actions_without_approval", "names", { fallback: [] }),
  field("actions_anywhere", "boolean", { fallback: false }),
  field("action_actors", "map", { fallback: {}, items: field("action_actors", "names", { fallback: [] }) }),
];

/** What happens at the bounds of a budget. @returns {Field[]} */
export const budgetFields = () => [
  field("on_exceeded", "select", { required: true, options: options("on_exceeded", ["refuse", "end", "ask"]), fallback: "refuse" }),
  field("on_denied", "select", { required: true, options: options("on_denied", ["refuse", "end"]), fallback: "refuse", showIf: { on_exceeded: "ask" } }),
  field("approvers", "names", { fallback: ["role:admin"], showIf: { on_exceeded: "ask" } }),
  field("expires_in", "number", { fallback: 1800, minimum: 60, maximum: 2_592_000, unit: t("agents.seconds"), showIf: { on_exceeded: "ask" } }),
];

/** @returns {Field[]} */
export const rateFields = () => [
  field("calls_per_second", "number", { nullable: true, above: 0, blank: t("agents.blank.unbounded") }),
];

/** @returns {Field[]} */
export const quotaFields = () =>
  Object.entries(DEFAULTS.resource_policy.quota).map(([name, value]) =>
    field(name, "integer", {
      help: "", fallback: value, nullable: true, minimum: 0, blank: t("agents.blank.unbounded"),
      ...(name.includes("bytes") && { unit: t("agents.bytes") }),
    }));

/** The rule of approval of one tool. @returns {Field[]} */
export const approvalFields = () => [
  field("subjects", "names", { fallback: ["requester", "role:admin"] }),
  field("min_approvals", "integer", { fallback: 1, minimum: 1, maximum: 20 }),
  field("separation_of_duty", "boolean", { fallback: false }),
  field("expires_in", "number", { fallback: 1800, minimum: 60, maximum: 2_592_000, unit: t("agents.seconds") }),
  field("editable", "boolean", { fallback: false }),
  field("locked", "names", { fallback: [], showIf: { editable: true } }),
  field("on_expiry", "select", { required: true, options: options("on_expiry", ["resume", "cancel"]), fallback: "resume" }),
];

/** @returns {Field[]} */
export const stateFields = () => [
  field("enable_state", "boolean", { fallback: true }),
  field("state_scopes", "multiselect", { options: options("state_scopes", ["conversation", "actor", "subject", "runner"]), fallback: ["conversation", "actor"], showIf: { enable_state: true } }),
  field("actor_across_accounts", "boolean", { fallback: false, showIf: { enable_state: true } }),
];

/** @returns {Field[]} */
export const deliveryFields = () => [
  field("enable_streaming", "boolean", { fallback: true }),
  field("enable_reply", "boolean", { fallback: true }),
  field("max_message_size", "integer", { nullable: true, blank: t("agents.blank.unbounded"), unit: t("agents.characters") }),
  field("ask_in", "names", { fallback: [] }),
];

/** @returns {Field[]} */
export const concurrencyFields = () => [
  field("on_busy", "select", { required: true, options: options("on_busy", ["steer", "queue", "interrupt", "parallel", "reject"]), fallback: "steer" }),
  field("leftover", "select", { required: true, options: options("leftover", ["requeue", "drop"]), fallback: "requeue", showIf: { on_busy: "steer" } }),
  field("on_pause", "select", { required: true, options: options("on_pause", ["hold", "supersede", "reject"]), fallback: "hold" }),
  field("debounce", "number", { fallback: 0, minimum: 0, maximum: 60, unit: t("agents.seconds") }),
  field("max_runs", "integer", { nullable: true, minimum: 1, blank: t("agents.blank.unbounded") }),
];

/** @returns {Field[]} */
export const recoveryFields = () => [
  field("on_crash", "select", { options: options("on_crash", ["resume", "restart", "fail"]), nullable: true, blank: t("agents.blank.on_crash") }),
  field("max_attempts", "integer", { fallback: 3, minimum: 1 }),
];

/** Of the agent itself. @returns {Field[]} */
export const attendanceFields = () => [
  field("allow_questions", "boolean", { fallback: true }),
  field("idle_timeout", "number", { nullable: true, above: 0, unit: t("agents.seconds"), blank: t("agents.blank.unbounded") }),
];

/** A part of a prompt, whose texts are those of `key`. @param {string} name @param {string} key @param {string} kind @param {Partial<Field>} [more] @returns {Field} */
const part = (name, key, kind, more) => ({ ...field(`prompt_${key}`, kind, more), name });

/** Messages that people pick. @returns {Field[]} */
export const promptFields = () => {
  const argument = [
    part("name", "argument", "line", { required: true, maxLength: 64 }),
    part("description", "asked", "line", { nullable: true, maxLength: 500 }),
    part("required", "required", "boolean", { fallback: false }),
  ];
  const prompt = [
    part("name", "name", "line", { required: true, maxLength: 64 }),
    part("title", "title", "line", { nullable: true, maxLength: 100 }),
    part("description", "description", "line", { nullable: true, maxLength: 500 }),
    part("text", "text", "text", { required: true, maxLength: 8000 }),
    part("arguments", "arguments", "list", { fallback: [], maximum: 16, items: { ...field("prompts", "object", { fields: argument }), help: "" } }),
  ];
  return [field("prompts", "list", { fallback: [], maximum: 32, items: { ...field("prompts", "object", { fields: prompt }), help: "" } })];
};

/** @returns {Field[]} */
export const bindingFields = () => [
  field("event_types", "names", { fallback: [], suggest: EVENT_TYPES }),
  field("filters", "list", { fallback: [], items: field("filter", "line", { help: "", label: "", required: true, maxLength: 4096 }), maximum: 32 }),
  field("priority", "integer", { fallback: 0 }),
  field("worker_labels", "names", { fallback: [] }),
];

/** @returns {Field[]} */
export const scopeFields = () => [
  field("type", "select", { required: true, options: options("scope", SCOPES), fallback: "workspace" }),
  field("id", "line", { nullable: true, showIf: { type: ["bot", "channel", "conversation"] } }),
];
