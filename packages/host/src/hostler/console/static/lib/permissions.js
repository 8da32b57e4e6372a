// What a plugin may do, as sentences with a risk: pure. The texts are `permission.KEY`.

/**
 * @typedef {"low" | "medium" | "high"} Risk
 * @typedef {{risk: Risk, area: string, key: string, fields?: Record<string, any>}} Permission
 * `area`: process, network, files, calls, effects, secrets.
 */

/** @type {Risk[]} */
export const RISKS = ["low", "medium", "high"];

/** Of host calls, by kind and operation of a manifest. @type {Record<string, Record<string, Risk>>} */
const CALLS = {
  models: { invoke: "medium", stream: "medium", rerank: "low", embed: "low", count_tokens: "low" },
  tools: { detail: "low", call: "medium" },
  knowledge_bases: { list: "low", retrieve: "low" },
  history: { page: "medium", search: "medium" },
  events: { get: "low", page: "medium" },
  artifacts: { metadata: "low", read: "medium" },
  storage: { plugin: "low", workspace: "medium" },
  files: { config: "low", knowledge: "low" },
  runs: { get: "low", list: "medium", events: "medium", cancel: "medium", create: "high", append: "medium", finalize: "medium" },
  schedules: { create: "medium", list: "low", delete: "low" },
};
/** Operations that one sentence says together. @type {Record<string, [string, string[]][]>} */
const TOGETHER = {
  models: [["models_ask", ["invoke", "stream"]], ["models_other", ["rerank", "embed", "count_tokens"]]],
  tools: [["tools_call", ["call"]], ["tools_detail", ["detail"]]],
  knowledge_bases: [["knowledge", ["list", "retrieve"]]],
  history: [["history", ["page", "search"]]],
  events: [["events", ["get", "page"]]],
  artifacts: [["artifacts", ["metadata", "read"]]],
  storage: [["storage_plugin", ["plugin"]], ["storage_workspace", ["workspace"]]],
  files: [["files_config", ["config"]], ["files_knowledge", ["knowledge"]]],
  runs: [["runs_read", ["get", "list", "events"]], ["runs_cancel", ["cancel"]], ["runs_create", ["create"]], ["runs_write", ["append", "finalize"]]],
  schedules: [["schedules", ["create", "list", "delete"]]],
};

/** The highest of some risks. @param {{risk: Risk}[]} found @returns {Risk} */
export const highest = (found) => RISKS[Math.max(0, ...found.map((one) => RISKS.indexOf(one.risk)))];

/**
 * All that a plugin may do.
 * @param {{level: string, network: string[]}} plugin
 * @param {{permissions: Record<string, string[]>, config_schema: {name: string, type: string}[]}[]} runners
 * @param {{name: string, effect: string, approval: string | null, client: boolean}[]} tools
 * @returns {Permission[]}
 */
export function permissionsOf(plugin, runners, tools) {
  const found = [process(plugin), network(plugin), { risk: plugin.level === "sandboxed" ? "low" : "high", area: "files", key: `files_${plugin.level}` }];
  found.push(...calls(runners), ...effects(tools), secrets(runners));
  return /** @type {Permission[]} */ (found);
}

/** @param {{level: string}} plugin @returns {Permission} */
function process({ level }) {
  const risk = level === "sandboxed" ? "low" : level === "remote" ? "medium" : "high";
  return { risk, area: "process", key: `level_${level}` };
}

/** @param {{level: string, network: string[]}} plugin @returns {Permission} */
function network({ level, network: places }) {
  if (level !== "sandboxed") return { risk: "high", area: "network", key: `network_${level}` };
  if (!places.length) return { risk: "low", area: "network", key: "network_none" };
  const any = places.some((place) => place.startsWith("*"));
  return { risk: any ? "high" : "medium", area: "network", key: any ? "network_any" : "network_places", fields: { places: places.join(", ") } };
}

/** @param {{permissions: Record<string, string[]>}[]} runners @returns {Permission[]} */
function calls(runners) {
  const found = [];
  const asked = (/** @type {string} */ kind) => new Set(runners.flatMap((runner) => runner.permissions[kind] ?? []));
  for (const [kind, sentences] of Object.entries(TOGETHER)) {
    const operations = asked(kind);
    for (const [key, some] of sentences) {
      const held = some.filter((one) => operations.has(one));
      if (held.length) found.push({ risk: highest(held.map((one) => ({ risk: CALLS[kind][one] ?? "medium" }))), area: "calls", key, fields: { operations: held.join(", ") } });
    }
  }
  const actions = [...asked("actions")];
  if (actions.length) found.push({ risk: /** @type {Risk} */ ("medium"), area: "calls", key: "actions", fields: { actions: actions.join(", ") } });
  // what a newer host knows and this page does not
  const unknown = [...new Set(runners.flatMap((runner) => Object.keys(runner.permissions)))].filter((kind) => !(kind in TOGETHER) && kind !== "actions" && asked(kind).size);
  for (const kind of unknown) found.push({ risk: /** @type {Risk} */ ("medium"), area: "calls", key: "other", fields: { kind, operations: [...asked(kind)].join(", ") } });
  if (!found.length) found.push({ risk: /** @type {Risk} */ ("low"), area: "calls", key: "calls_none" });
  return found;
}

/** @param {{name: string, effect: string, approval: string | null, client: boolean}[]} tools @returns {Permission[]} */
function effects(tools) {
  const found = [];
  for (const effect of ["default", "reconcilable", "idempotent", "pure"]) {
    const of = tools.filter((tool) => tool.effect === effect);
    if (!of.length) continue;
    const free = of.some((tool) => tool.approval !== "required" && !tool.client);
    found.push({ risk: effect === "pure" ? "low" : free ? "medium" : "low", area: "effects", key: `effect_${effect}`, fields: { tools: of.map((tool) => tool.name).join(", ") } });
  }
  return /** @type {Permission[]} */ (found.length ? found : [{ risk: "low", area: "effects", key: "effect_none" }]);
}

/** @param {{config_schema: {name: string, type: string}[]}[]} runners @returns {Permission} */
function secrets(runners) {
  const names = [...new Set(runners.flatMap((runner) => runner.config_schema.filter((item) => item.type === "secret").map((item) => item.name)))];
  if (!names.length) return { risk: "low", area: "secrets", key: "secrets_none" };
  return { risk: "medium", area: "secrets", key: "secrets_some", fields: { names: names.join(", ") } };
}
