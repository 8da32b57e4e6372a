// The journal of a run as the steps that a reader looks for: pure, entry by entry.

/**
 * @typedef {{position: number, kind: string, type: string, at: number, data: any, attempt: number, sequence?: number,
 *   usage?: any}} Entry
 * @typedef {{key: string, kind: string, title: string, note: string, from: number, to: number, bad: boolean, open: boolean,
 *   attempt: number, position: number, text: string, parts: [string, any][], usage?: any, cost?: number}} Step
 * `kind`: message, model, tool, call, pause, status, log, other. `open`: it goes on. `parts`: what is shown when it is
 * opened, by the key of its heading. `position`: of its last entry, from which the run can be forked.
 */

const MODEL = /^(model\.|prompt\.)/;

/** Takes entries in their order. `steps` is the list so far; a step that changes is replaced by another object. */
export class Steps {
  constructor() {
    /** @type {Step[]} */
    this.steps = [];
    /** The position of the last entry. */
    this.after = 0;
    /** @type {Map<string, number>} */
    this._places = new Map();
  }

  /** @param {Entry[]} entries */
  take(entries) {
    for (const entry of entries) {
      if (entry.position <= this.after) continue;
      this.after = entry.position;
      this._take(entry);
    }
    this.steps = [...this.steps];
  }

  /** @param {Entry} entry */
  _take(entry) {
    const { kind, type, data } = entry;
    if (kind === "result") this._result(entry);
    else if (kind === "call" || kind === "refusal") this._call(entry);
    else if (kind === "intent") this._put(`intent ${data.method} ${data.digest} ${data.nth}`, entry, { kind: "call", title: data.method, open: true });
    else if (kind === "lifecycle") {
      this._put(`status ${entry.position}`, entry, {
        kind: "status", title: data.to ?? type, note: data.cause ?? "", bad: ["failed", "timeout"].includes(data.to),
        parts: data.status_code ? [["status_code", data.status_code]] : [],
      });
    } else if (kind === "decision") {
      this._put(`decision ${entry.position}`, entry, { kind: "pause", title: type, note: data.cause ?? data.actor ?? "", parts: [["data", data]] });
    } else if (kind === "context") this._put(`context ${entry.position}`, entry, { kind: "context", title: "context", parts: [["context", data]] });
    else this._put(`${kind} ${entry.position}`, entry, { kind: "other", title: `${kind} ${type}`, parts: [["data", data]] });
  }

  /** @param {Entry} entry */
  _result(entry) {
    const { type, data } = entry;
    if (type === "message.delta") {
      const text = textOf(data.chunk?.content);
      const last = this.steps.at(-1);
      if (last?.kind === "message" && last.open && last.attempt === entry.attempt) this._change(this.steps.length - 1, entry, { text: last.text + text });
      else this._put(`message ${entry.position}`, entry, { kind: "message", title: "message", text, open: true });
    } else if (type === "message.completed") {
      const text = textOf(data.message?.content);
      const last = this.steps.at(-1);
      const changes = { text, open: false, usage: entry.usage, parts: /** @type {[string, any][]} */ ([["message", data.message]]) };
      if (last?.kind === "message" && last.open && last.attempt === entry.attempt) this._change(this.steps.length - 1, entry, changes);
      else this._put(`message ${entry.position}`, entry, { kind: "message", title: "message", ...changes });
    } else if (type === "tool.call.started") {
      this._put(`tool ${entry.attempt} ${data.tool_call_id}`, entry, { kind: "tool", title: data.tool_name, open: true, parts: [["arguments", data.parameters]] });
    } else if (type === "tool.call.completed") {
      const key = `tool ${entry.attempt} ${data.tool_call_id}`, place = this._places.get(key);
      const outcome = /** @type {[string, any]} */ (data.error ? ["error", data.error] : ["result", data.result]);
      const parts = [...(place === undefined ? [] : this.steps[place].parts), outcome];
      const changes = { open: false, bad: Boolean(data.error), parts };
      if (place === undefined) this._put(key, entry, { kind: "tool", title: data.tool_name, ...changes });
      else this._change(place, entry, changes);
    } else if (type === "interaction.requested") {
      this._put(`pause ${entry.position}`, entry, { kind: "pause", title: data.title || data.kind, note: data.tool_name ?? "", parts: [["asked", data]] });
    } else if (type === "log") {
      this._put(`log ${entry.position}`, entry, { kind: "log", title: data.level ?? "log", text: data.text ?? "", bad: data.level === "error" });
    } else {
      const bad = type === "run.failed";
      this._put(`result ${entry.position}`, entry, { kind: "other", title: type, note: data.error?.message ?? data.message ?? "", bad, parts: [["data", data]] });
    }
  }

  /** @param {Entry} entry */
  _call(entry) {
    const { data } = entry, model = MODEL.test(data.method);
    const began = this._places.get(`intent ${data.method} ${data.digest} ${data.nth}`);
    const parts = /** @type {[string, any][]} */ ([]);
    if (data.params !== undefined && data.params !== null) parts.push([model ? "prompt" : "arguments", data.params]);
    if (data.error) parts.push(["error", data.error]);
    else if (data.reply !== undefined) parts.push([model ? "answer" : "result", data.reply]);
    const changes = {
      kind: model ? "model" : "call", open: false, bad: Boolean(data.error), parts, usage: data.usage ?? data.reply?.usage,
      cost: data.cost === undefined ? undefined : Number(data.cost),
      note: nameOf(data), title: data.method,
      from: entry.at - (data.ms ?? 0) / 1000,
    };
    if (began !== undefined) this._change(began, entry, { ...changes, from: this.steps[began].from });
    else this._put(`call ${entry.position}`, entry, changes);
  }

  /** @param {string} key @param {Entry} entry @param {Partial<Step>} fields */
  _put(key, entry, fields) {
    this._places.set(key, this.steps.length);
    this.steps.push({
      key, kind: "other", title: "", note: "", text: "", bad: false, open: false, parts: [], from: entry.at, to: entry.at,
      attempt: entry.attempt, position: entry.position, ...fields,
    });
  }

  /** @param {number} place @param {Entry} entry @param {Partial<Step>} changes */
  _change(place, entry, changes) {
    this.steps[place] = { ...this.steps[place], to: entry.at, position: entry.position, ...changes };
  }
}

/** @param {any} content */
export function textOf(content) {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  return content.map((part) => part?.text ?? (part?.file_name ? `[${part.file_name}]` : part?.type ? `[${part.type}]` : "")).join("");
}

/** What a call is about: the tool, model or state that it names. @param {any} data */
function nameOf(data) {
  const params = data.params ?? {};
  return String(params.tool_name ?? params.model_id ?? params.model ?? params.knowledge_base_id ?? params.key ?? params.agent ?? data.resource ?? "");
}
