// What a step holds, read from its whole entries: the parts that are shown under headings, in order.

/**
 * @typedef {import("./steps.js").Entry} Entry
 * @typedef {import("./steps.js").Step} Step
 * @typedef {[string, any][]} Parts
 */

/** The parts of a step, by the keys of their headings. @param {Step} step @param {(Entry | null)[]} entries @returns {Parts} */
export function partsOf(step, entries) {
  /** @type {Map<string, any>} */
  const found = new Map();
  const put = (/** @type {string} */ key, /** @type {any} */ value) => value === undefined || value === null || found.set(key, value);
  for (const entry of entries) {
    if (entry === null) continue;
    const { kind, type, data } = entry;
    if (kind === "call" || kind === "refusal" || kind === "intent") call(step, data, put);
    else if (type === "tool.call.started") put("arguments", data.parameters);
    else if (type === "tool.call.completed") put(data.error ? "error" : "result", data.error ?? data.result);
    else if (type === "message.completed") put("message", data.message);
    else if (type === "message.delta") put("message", step.text);
    else if (kind === "lifecycle") put("data", data);
    else if (type === "log") put("text", data.text);
    else if (type === "interaction.requested") put("asked", data);
    else put(kind === "context" ? "context" : "data", data);
  }
  return [...found];
}

/** @param {Step} step @param {any} data @param {(key: string, value: any) => void} put */
function call(step, data, put) {
  const model = step.kind === "model";
  const asked = data.method === "action.request" ? { target: data.params?.target, payload: data.params?.payload } : undefined;
  put(model ? "prompt" : "arguments", model ? promptOf(data.params) : asked ? (data.arguments ?? asked) : step.kind === "tool" || step.kind === "action" ? (data.arguments ?? data.params?.parameters ?? data.params?.arguments ?? data.params) : data.params);
  if (data.approved_by) put("approved_by", data.approved_by);
  if (data.check) put("check", data.check);
  if (data.error) put("error", data.error);
  else if (data.reply !== undefined) put(model ? "answer" : "result", data.reply);
  else if (data.given_up) put("given_up", (data.chunks ?? []).map((/** @type {any} */ one) => (typeof one === "string" ? one : JSON.stringify(one))).join(""));
}

/** @param {any} params */
const promptOf = (params) => (params && typeof params === "object" ? params : undefined);

/** The value that a step gave a place of the state. @param {Entry | null | undefined} entry */
export function valueOf(entry) {
  if (!entry) return undefined;
  if (entry.kind === "result") return entry.data.value;
  return entry.data.params?.value;
}

/** The value that a place of the state had before. @param {Entry | null | undefined} entry @param {Entry | null | undefined} changed */
export function valueBefore(entry, changed) {
  if (!entry) return undefined;
  if (entry.kind !== "context") return valueOf(entry);
  const place = changed?.kind === "result" ? changed.data : changed?.data.params;
  return place ? entry.data.state?.[place.scope]?.[place.key] : undefined;
}
