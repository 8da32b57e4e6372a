// The fields of the entries of hooks and channels, with what the host takes where they say nothing: pure but for the language.
import { bare, field, options, plain } from "./entry_fields.js";
import { t } from "./i18n.js";
import { fieldsOfRunner } from "./schema_fields.js";

/** @typedef {import("./schema_fields.js").Field} Field */

const VERIFIERS = ["standard", "github", "gitlab", "stripe", "slack", "shopify", "twilio", "hmac", "basic", "bearer", "none"];
const EXPLAINED = new Set(["event_type", "text", "conversation_id", "id", "data"]);
const MAPPED = ["event_type", "text", "conversation_id", "actor_id", "actor_name", "thread_id", "id", "source_event_type", "data"];
const EVENTS = [
  "message.received", "message.edited", "message.recalled", "message.reaction_added", "message.reaction_removed", "group.member_joined",
  "group.member_left", "group.bot_invited", "group.bot_removed", "friend.request_received", "friend.added", "command.invoked",
  "interaction.submitted",
];

/** Only where a secret is: the host refuses one that is written out. @param {Field} of @returns {Field} */
const referred = (of) => (of.kind === "secret" ? { ...of, references: true } : of);

/** @param {string[]} agents those that can be named */
const agentField = (agents) => field("agent", "line", { suggest: agents });

/** @param {string[]} agents @returns {Field[]} */
export const hookFields = (agents) => [
  field("verify", "select", { required: true, options: VERIFIERS.map((value) => ({ value, label: value === "none" ? t("source.unverified") : value })) }),
  field("secrets", "list", { items: plain("secret", "secret", "", { references: true }), maximum: 2, showIf: { verify: VERIFIERS.filter((one) => one !== "none") } }),
  field("username", "line", { required: true, showIf: { verify: "basic" } }),
  bare("hmac", "object", {
    required: true, showIf: { verify: "hmac" },
    fields: [
      bare("header", "line", { required: true }),
      bare("algorithm", "select", { fallback: "sha256", options: ["sha1", "sha256", "sha384", "sha512"].map((value) => ({ value, label: value })) }),
      bare("encoding", "select", { fallback: "hex", options: ["hex", "base64"].map((value) => ({ value, label: value })) }),
      field("prefix", "line"), field("timestamp_header", "line"), field("signed", "line"),
    ],
  }),
  field("url", "line", { showIf: { verify: "twilio" } }),
  agentField(agents),
  field("map", "object", { fields: MAPPED.map((name) => plain(name, "line", name, { help: EXPLAINED.has(name) ? t(`source.map.${name}`) : "", maxLength: 4096 })) }),
];

/** What few hooks need. @returns {Field[]} */
export const moreHookFields = () => [
  field("challenge_token", "secret", { references: true }),
  field("workspace", "line"),
  field("same_body", "select", { fallback: "once", options: options("same_body", ["once", "new"]) }),
  bare("tolerance_seconds", "integer", { fallback: 300, minimum: 1, maximum: 86_400, unit: t("agents.seconds") }),
  bare("max_body_kib", "integer", { fallback: 1024, minimum: 1, maximum: 4096, unit: "KiB" }),
  field("requests_per_second", "number", { fallback: 50, above: 0, maximum: 10_000 }),
];

/**
 * `channels`: those that there are; `form`: that of the chosen one, null where it is not known.
 * @param {string[]} agents @param {{value: string, label: string}[]} channels @param {any[] | null} form @returns {Field[]}
 */
export const channelFields = (agents, channels, form) => [
  field("channel", "select", { required: true, options: channels }),
  ...(form === null
    ? [field("config", "map", { help: t("source.help.config_unknown"), items: plain("value", "line", ""), secret: true })] // any of them may be one
    : form.length ? [field("config", "object", { fields: fieldsOfRunner(form).map(referred) })] : []),
  agentField(agents),
  bare("enabled", "boolean", { fallback: true }),
  field("pairing", "boolean", { fallback: false }),
];

/** @param {string} name @returns {Field} */
const access = (name) => field(name, "object", { fields: ["people", "chats"].map((one) => plain(one, "names", t(`source.field.${one}`), { fallback: [] })) });

/** What few channels need. @returns {Field[]} */
export const moreChannelFields = () => [
  access("allow"), access("block"),
  field("agent_events", "names", { fallback: ["message.received", "interaction.submitted", "command.invoked"], suggest: EVENTS }),
  bare("streaming", "select", { fallback: "edits", options: options("streaming", ["edits", "whole"]) }),
  bare("ask_in_chat", "boolean", { fallback: true }),
  field("allow_bots", "boolean", { fallback: false }),
  bare("on_doubt", "select", { fallback: "leave", options: options("on_doubt", ["leave", "send_again"]) }),
  field("failure_text", "text", { fallback: "Something went wrong, and this could not be answered.", maxLength: 1000 }),
  field("file_types", "names", { fallback: [] }),
  bare("max_file_bytes", "integer", { fallback: 33_554_432, minimum: 0, unit: t("agents.bytes") }),
  field("actions", "names", { nullable: true, blank: t("source.all_actions") }),
  field("roles", "map", { items: plain("role", "names", "", { fallback: [] }) }),
];
