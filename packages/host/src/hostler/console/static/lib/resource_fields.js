// The fields of the entries of models, tools and skills, with what the host takes where they say nothing: pure but for the language.
import { bare, field, options, plain } from "./entry_fields.js";
import { t } from "./i18n.js";

/** @typedef {import("./schema_fields.js").Field} Field */
/** @typedef {Record<string, any>} Values */

/** @returns {Field[]} */
export const modelName = () => [plain("id", "line", t("settings.name"), { help: t("source.name.models"), required: true, maxLength: 200 })];

/** @returns {Field[]} */
export const modelFields = () => [
  field("provider", "select", { fallback: "openai", options: options("provider", ["openai", "litellm", "demo"]) }),
  field("base_url", "line", { showIf: { provider: ["openai", "litellm"] } }),
  field("model", "line", { showIf: { provider: ["openai", "litellm"] } }),
  field("api_key", "secret", { references: true, showIf: { provider: ["openai", "litellm"] } }),
  bare("type", "select", { fallback: "llm", options: options("type", ["llm", "rerank", "embedding"]) }),
];

/** What few models need. @returns {Field[]} */
export const moreModelFields = () => [
  bare("context_window", "integer", { minimum: 1, unit: t("source.tokens") }),
  field("price", "object", { fields: ["input", "output", "cached"].map((name) => bare(name, "number", { minimum: 0 })) }),
  field("max_output_tokens", "integer", { minimum: 1, unit: t("source.tokens") }),
  field("max_image_tokens", "integer", { fallback: 3000, minimum: 0, unit: t("source.tokens") }),
  field("timeout", "number", { fallback: 300, above: 0, unit: t("agents.seconds") }),
  bare("max_retries", "integer", { fallback: 2, minimum: 0 }),
  field("extra_args", "json", { fallback: {}, secret: true }), // any of them may be one
];

const KINDS = ["mcp", "openapi", "fetch", "files", "exec"];

/** @param {string} kind */
const kindField = (kind) => field("kind", "select", { required: true, options: options("kind", kind === "mcp" ? KINDS : [...KINDS.slice(1), "mcp"]) });

/** `kind`: the one that is offered first. @param {string} kind @returns {Field[]} */
export const toolName = (kind) => [
  kindField(kind),
  plain("name", "line", t("settings.name"), { help: t("source.name.tools"), required: true, maxLength: 32, pattern: "[A-Za-z][A-Za-z0-9_\\-]*" }),
];

/** Whether calls need approval: all, none, or by the names of tools. @param {Values} values @param {boolean} [byTool] @returns {Field} */
const approval = (values, byTool = true) => {
  const answers = options("approval", ["never", "required"]);
  if (byTool && values.approval !== null && typeof values.approval === "object") {
    return field("approval", "map", { help: t("source.help.approval_by_tool"), fallback: "never", items: plain("value", "select", "", { required: true, options: answers }) });
  }
  return bare("approval", "select", { fallback: "never", options: byTool ? [...answers, { value: {}, label: t("source.option.approval.by_tool") }] : answers });
};
/** @param {string} help @returns {Field[]} */
const effects = (help) => [field("effects", "map", { help, fallback: {}, items: plain("value", "select", "", { required: true, options: options("effects", ["default", "pure", "idempotent"]) }) })];
/** Names to values, of which any may be a secret. @param {string} name @param {Partial<Field>} [more] */
const named = (name, more = {}) => field(name, "map", { items: plain("value", "line", ""), secret: true, ...more });
/** @param {string} help */
const allow = (help) => plain("allow", "names", t("source.field.allow_tools"), { help, nullable: true, blank: t("source.all_tools") });
/** @param {string} name @param {number} fallback @param {number} maximum */
const seconds = (name, fallback, maximum) => bare(name, "number", { fallback, above: 0, maximum, unit: t("agents.seconds") });
/** @param {string} name @param {number} fallback @param {Partial<Field>} [more] */
const count = (name, fallback, more = {}) => bare(name, "integer", { fallback, minimum: 1, ...more });
const description = () => field("description", "text");
const COMMAND = { reached: "command" }, URL = { reached: "url" };

/** @type {Record<string, {fields: (values: Values) => Field[], more: () => Field[]}>} */
const TOOLS = {
  mcp: {
    fields: (values) => [
      bare("reached", "select", { fallback: "command", options: options("reached", ["command", "url"]) }),
      field("command", "list", { required: true, minimum: 1, items: plain("part", "line", ""), showIf: COMMAND }),
      named("environment", { help: t("source.help.environment_secrets"), showIf: COMMAND }),
      field("level", "select", { fallback: "sandboxed", options: ["sandboxed", "trusted"].map((value) => ({ value, label: t(`level.${value}`) })), showIf: COMMAND }),
      plain("url", "line", t("source.field.address"), { help: t("source.help.mcp_url"), required: true, showIf: URL }),
      field("token", "secret", { references: true, showIf: URL }),
      named("headers", { showIf: URL }),
      allow(t("source.help.allow_tools")), approval(values),
    ],
    more: () => [
      field("deny", "names", { fallback: [] }), ...effects(t("source.help.effects")), field("trust_annotations", "boolean", { fallback: false }),
      field("network", "names", { fallback: [], help: t("source.help.mcp_network") }),
      field("read", "names", { fallback: [], showIf: COMMAND }), field("write", "names", { fallback: [], showIf: COMMAND }), field("cwd", "line", { showIf: COMMAND }),
      seconds("seconds", 60, 86_400), field("connect_seconds", "number", { fallback: 60, above: 0, maximum: 86_400, unit: t("agents.seconds") }),
      count("result_kib", 8192, { maximum: 65_536, unit: "KiB" }),
      count("memory_mib", 1024, { minimum: 16, maximum: 1_048_576, unit: "MiB", showIf: COMMAND }), count("processes", 128, { maximum: 100_000, showIf: COMMAND }),
      count("disk_mib", 512, { maximum: 1_048_576, unit: "MiB", showIf: COMMAND }), bare("cpus", "number", { minimum: 0.05, maximum: 10_000, showIf: COMMAND }),
    ],
  },
  openapi: {
    fields: (values) => [
      field("document", "line", { required: true }), field("digest", "line"), field("base_url", "line", { help: t("source.help.openapi_base_url") }),
      field("auth", "map", { fallback: {}, items: plain("value", "secret", "", { references: true }) }),
      allow(t("source.help.operations")), approval(values),
    ],
    more: () => [
      field("deny", "names", { fallback: [] }), ...effects(t("source.help.openapi_effects")), field("anonymous", "boolean", { fallback: false }),
      field("network", "names", { fallback: [], help: t("source.help.openapi_network") }), seconds("seconds", 30, 3600), count("response_kib", 8192, { maximum: 65_536, unit: "KiB" }),
    ],
  },
  fetch: {
    fields: (values) => [approval(values, false), field("only", "names", { fallback: [] }), field("deny", "names", { fallback: [], help: t("source.help.deny_hosts") })],
    more: () => [
      description(), field("network", "names", { fallback: [], help: t("source.help.fetch_network") }), seconds("seconds", 30, 600),
      count("page_kib", 1024, { maximum: 8192, unit: "KiB" }), count("file_kib", 20_480, { maximum: 262_144, unit: "KiB" }), count("redirects", 5, { minimum: 0, maximum: 20 }),
    ],
  },
  files: { fields: (values) => [field("read_only", "boolean", { fallback: false }), approval(values, false)], more: () => [] },
  exec: {
    fields: (values) => [approval(values, false), field("network", "names", { fallback: [], help: t("source.help.exec_network") }), field("environment", "map", { fallback: {}, items: plain("value", "line", "") })],
    more: () => [
      description(), seconds("seconds", 60, 86_400), count("output_kib", 8192, { maximum: 65_536, unit: "KiB" }), count("memory_mib", 512, { maximum: 1_048_576, unit: "MiB" }),
      count("processes", 64, { maximum: 10_000 }), bare("cpus", "number", { minimum: 0.05, maximum: 10_000 }),
    ],
  },
};

/** @param {Values} values @returns {Field[]} */
export const toolFields = (values) => TOOLS[values.kind]?.fields(values) ?? [];
/** @param {Values} values @returns {Field[]} */
export const moreToolFields = (values) => TOOLS[values.kind]?.more() ?? [];

/** The values of a form, from an entry: which of its kinds it is, and how a server is reached, are fields there. @param {any} entry @returns {Values} */
export function toolValues(entry) {
  const kind = KINDS.find((one) => entry[one]) ?? "mcp", own = entry[kind] ?? {};
  return { kind, ...own, name: own.name ?? kind, ...(kind === "mcp" && { reached: own.url ? "url" : "command" }) };
}

/** @param {Values} values */
export function toolEntry({ kind, reached, ...own }) {
  const known = new Set(["name", ...[...toolFields({ ...own, kind }), ...moreToolFields({ kind })].map((one) => one.name)]); // those of other kinds are not sent
  return { [kind]: Object.fromEntries(Object.entries(own).filter(([name]) => known.has(name))) };
}

/** @returns {Field[]} */
export const skillName = () => [plain("path", "line", t("entry.path"), { help: t("source.name.skills"), required: true, maxLength: 4096 })];
