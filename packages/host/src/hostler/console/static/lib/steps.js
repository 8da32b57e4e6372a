// The journal of a run as the steps that a reader looks for: pure, entry by entry, as an overview. What a step holds
// is read when it is opened.
import { aboutOf, actionOfTool, outcomeOf, placeOf, reasonOfAction } from "./platform_actions.js";

/**
 * @typedef {{position: number, kind: string, type: string, at: number, data: any, attempt: number, sequence?: number,
 *   usage?: any}} Entry
 * @typedef {{key: string, kind: string, title: string, note: string, from: number, to: number, bad: boolean, open: boolean,
 *   attempt: number, first: number, position: number, entries: number[], text: string, usage?: any, cost?: number,
 *   effect?: string, digest?: string, inherited?: boolean, before?: number, artifact?: any, event?: string,
 *   child?: string, tool?: string, pause?: string, outcome?: string, approved?: string, sequence?: number}} Step
 * `kind`: one of KINDS. `open`: it goes on. `first`, `position`: of its first and last entry. `entries`: the positions
 * of those that tell most. `before`: where the value stood that it changed. `digest`: equal for equal calls.
 * `tool`: that the host called. `pause`: in which people were asked. `outcome`: of a platform action, and of a call that people are asked about. `sequence`: of the result that asked for it, where the audit log has its outcome.
 */

export const KINDS = ["context", "message", "model", "tool", "action", "state", "artifact", "call", "steer", "pause", "attempt", "status", "log", "other"];
const FAMILIES = /** @type {Record<string, string>} */ ({
  model: "model", prompt: "model", state: "state", storage: "state", artifact: "artifact", steering: "steer",
});
const MAX_TEXT = 20_000;
const MAX_OVER = 300;

/** Takes entries in their order. `steps` is the list so far; a step that changes is replaced by another object. */
export class Steps {
  constructor() {
    /** @type {Step[]} */
    this.steps = [];
    /** The position of the last entry. */
    this.after = 0;
    /** @type {Map<string, number>} */
    this._places = new Map();
    /** Where the values of the state were last written. @type {Map<string, number>} */
    this._values = new Map();
    this._context = 0;
    /** The steps whose outcome people may be asked for, by the ids of their calls. @type {Map<string, string[]>} */
    this._asked = new Map();
    /** @type {Record<string, string>} */
    this._place = {};
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
    else if (kind === "call" || kind === "refusal" || kind === "intent") this._call(entry);
    else if (kind === "lifecycle") {
      this._put(`status ${entry.position}`, entry, {
        kind: "status", title: data.to ?? type, note: data.cause ?? "", bad: ["failed", "timeout"].includes(data.to),
      });
    } else if (kind === "decision") {
      this._doubt(data);
      this._put(`decision ${entry.position}`, entry, { kind: "pause", title: type, pause: data.pause_id, note: [data.actor, data.cause ?? data.to].filter(Boolean).join(" · ") });
    } else if (kind === "cancellation") {
      this._put(`cancel ${entry.position}`, entry, { kind: "pause", title: "cancel", note: [data.actor, data.reason].filter(Boolean).join(" · ") });
    } else if (kind === "steering") {
      this._put(`steer ${entry.position}`, entry, { kind: "steer", title: type, note: "", event: data.source_event_id });
    } else if (kind === "attempt") {
      this._put(`attempt ${entry.position}`, entry, { kind: "attempt", title: "attempt.resumed", note: "" });
    } else if (kind === "warning") {
      this._put(`warning ${entry.position}`, entry, { kind: "log", title: "warning", text: String(data.reason ?? "") });
    } else if (kind === "context") {
      this._context ||= entry.position;
      this._place = placeOf(data);
      this._put(`context ${entry.position}`, entry, { kind: "context", title: "context", text: textOf(data.input?.contents) || data.input?.text || "" });
    } else this._put(`${kind} ${entry.position}`, entry, { title: `${kind} ${type}` });
  }

  /** @param {Entry} entry */
  _result(entry) {
    const { type, data } = entry;
    if (type === "message.delta" || type === "message.completed") this._message(entry);
    else if (type === "tool.call.started") {
      this._merge(toolKey(entry, data), entry, { ...toolOf(data), open: true });
    } else if (type === "tool.call.completed") {
      this._merge(toolKey(entry, data), entry, { ...toolOf(data), open: false, bad: Boolean(data.error) });
    } else if (type === "action.requested") {
      const note = aboutOf(data.target, this._place);
      this._put(`action ${entry.position}`, entry, { kind: "action", title: String(data.action ?? ""), note, outcome: "asked", sequence: entry.sequence });
    } else if (type === "state.updated") this._state(`${data.scope}.${data.key}`, entry, { title: type, note: `${data.scope}.${data.key}` });
    else if (type === "artifact.created") {
      this._put(`artifact ${entry.position}`, entry, { kind: "artifact", title: type, note: data.name ?? data.artifact_type ?? "", artifact: data });
    } else if (type === "interaction.requested") {
      this._put(`pause ${entry.position}`, entry, { kind: "pause", title: data.title || data.kind, note: data.tool_name ?? "" });
    } else if (type === "log") {
      this._put(`log ${entry.position}`, entry, { kind: "log", title: data.level ?? "log", text: data.text ?? "", bad: data.level === "error" });
    } else if (type === "attempt.started") {
      this._put(`attempt ${entry.position}`, entry, { kind: "attempt", title: type, note: data.cause ?? "" });
    } else {
      const error = typeof data.error === "string" ? data.error : (data.error?.message ?? "");
      this._put(`result ${entry.position}`, entry, { title: type, note: error || (data.message && textOf(data.message.content)) || "", bad: type === "run.failed" });
    }
  }

  /** @param {Entry} entry */
  _message(entry) {
    const { type, data } = entry, last = this.steps.at(-1);
    const goesOn = last?.kind === "message" && last.open && last.attempt === entry.attempt;
    if (type === "message.delta") {
      const text = textOf(data.chunk?.content);
      if (goesOn) this._change(this.steps.length - 1, entry, { text: (last.text + text).slice(0, MAX_TEXT), entries: last.entries });
      else this._put(`message ${entry.position}`, entry, { kind: "message", title: "message", text, open: true });
      return;
    }
    const changes = { text: textOf(data.message?.content).slice(0, MAX_OVER), open: false, usage: entry.usage, entries: [entry.position] };
    if (goesOn) this._change(this.steps.length - 1, entry, changes);
    else this._put(`message ${entry.position}`, entry, { kind: "message", title: "message", ...changes });
  }

  /** Calls of the host: what is intended, and what became of it, are one step. @param {Entry} entry */
  _call(entry) {
    const { data } = entry, method = String(data.method ?? entry.type), kind = method === "tool.call" ? "tool" : (FAMILIES[method.split(".")[0]] ?? "call");
    const params = data.params ?? {}, error = data.error, action = method === "action.request" ? String(params.action ?? data.resource ?? "") : kind === "tool" ? actionOfTool(nameOf(data)) : null;
    const doubt = `intent ${method} ${data.digest} ${data.nth}`;
    const told = kind === "tool" ? toolKey(entry, params) : "";
    const key = told && this._places.has(told) ? told : this._places.has(doubt) ? doubt : entry.kind === "intent" ? doubt : told || `call ${entry.position}`;
    const known = this._places.get(key);
    /** @type {Partial<Step>} */
    const changes = {
      kind, title: kind === "tool" ? nameOf(data) || method : method, note: kind === "tool" ? "" : nameOf(data), digest: data.digest,
      effect: data.effect ?? (known === undefined ? undefined : this.steps[known].effect), open: entry.kind === "intent",
      child: data.child_run_id ?? (method === "run.create" ? data.reply?.run_id : undefined),
    };
    if (kind === "tool" && action === null) changes.tool = nameOf(data);
    if (data.pause_id) changes.pause = data.pause_id;
    if (data.call_id && (kind === "tool" || action !== null)) this._asked.set(data.call_id, [...(this._asked.get(data.call_id) ?? []), key]);
    if (action !== null) this._action(key, action, entry, changes);
    else if (entry.kind === "intent") changes.outcome = undefined; // it may be made again, after there was a doubt
    if (entry.kind !== "intent") {
      Object.assign(changes, {
        bad: Boolean(error), usage: data.usage ?? data.reply?.usage, inherited: Boolean(data.inherited),
        cost: data.cost === undefined || data.cost === null ? undefined : Number(data.cost), text: action !== null ? reasonOfAction(data) : error ? String(error.message ?? "") : "",
      });
      if (known === undefined) changes.from = entry.at - (data.ms ?? 0) / 1000;
    }
    if (kind === "state" && (params.value !== undefined || /set|delete|update/.test(method))) this._state(`${params.scope}.${params.key}`, entry, changes, key);
    else this._merge(key, entry, changes);
    if (entry.kind === "intent") this._places.set(doubt, /** @type {number} */ (this._places.get(key)));
  }

  /** What a call has that asks for a platform action. @param {string} key @param {string} action @param {Entry} entry @param {Partial<Step>} changes */
  _action(key, action, entry, changes) {
    const { data } = entry, params = data.params ?? {};
    const known = this._places.get(key), asked = data.arguments ?? (data.method === "tool.call" ? params.parameters : params.target);
    Object.assign(changes, { kind: "action", title: action, outcome: outcomeOf(entry.kind, data) });
    changes.note = (known !== undefined && !data.arguments && this.steps[known].note) || aboutOf(asked, this._place);
    if (data.approved_by) changes.approved = data.approved_by;
  }

  /** People are asked for the outcome of what was begun. @param {any} data of a decision */
  _doubt(data) {
    const calls = (data.calls ?? [data]).filter((/** @type {any} */ one) => one?.kind === "in_doubt").map((/** @type {any} */ one) => one.call_id);
    for (const key of calls.flatMap((/** @type {string} */ id) => this._asked.get(id) ?? [])) {
      const place = this._places.get(key);
      if (place !== undefined && this.steps[place].open) this.steps[place] = { ...this.steps[place], outcome: "in_doubt" };
    }
  }

  /** @param {string} name @param {Entry} entry @param {Partial<Step>} fields @param {string} [key] */
  _state(name, entry, fields, key = `state ${entry.position}`) {
    const before = this._values.get(name) ?? this._context;
    this._values.set(name, entry.position);
    this._merge(key, entry, { kind: "state", before, ...fields });
  }

  /** Add to the step of this key, or begin it. @param {string} key @param {Entry} entry @param {Partial<Step>} fields */
  _merge(key, entry, fields) {
    const place = this._places.get(key);
    if (place === undefined) return this._put(key, entry, fields);
    const known = this.steps[place];
    const kept = fields.bad === undefined ? known.bad : known.bad || fields.bad;
    this._change(place, entry, { ...fields, title: fields.title || known.title, bad: kept, entries: [...known.entries, entry.position].slice(-6) });
  }

  /** @param {string} key @param {Entry} entry @param {Partial<Step>} fields */
  _put(key, entry, fields) {
    this._places.set(key, this.steps.length);
    this.steps.push({
      key, kind: "other", title: "", note: "", text: "", bad: false, open: false, from: entry.at, to: entry.at,
      attempt: entry.attempt, first: entry.position, position: entry.position, entries: [entry.position], ...fields,
    });
  }

  /** @param {number} place @param {Entry} entry @param {Partial<Step>} changes */
  _change(place, entry, changes) {
    this.steps[place] = { ...this.steps[place], to: entry.at, position: entry.position, ...changes };
  }
}

/** A tool that a runner tells of, which may be a platform action. @param {any} data @returns {Partial<Step>} */
function toolOf(data) {
  const action = actionOfTool(data.tool_name);
  return action === null ? { kind: "tool", title: String(data.tool_name ?? "") } : { kind: "action", title: action };
}

/** @param {Entry} entry @param {any} data */
const toolKey = (entry, data) => (data.tool_call_id ? `tool ${entry.attempt} ${data.tool_call_id}` : "");

/** Whether a step may or may not have happened: it was begun, and nothing tells its end. @param {Step} step @param {any} run */
export const isInDoubt = (step, run) =>
  step.open && ["tool", "call", "action"].includes(step.kind) && step.entries.length > 0 && Boolean(step.digest)
  && (step.outcome === "in_doubt" || step.attempt < run.attempt || ["completed", "failed", "timeout", "cancelled"].includes(run.status));

/** @param {any} content */
export function textOf(content) {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  return content.map((part) => part?.text ?? (part?.file_name ? `[${part.file_name}]` : part?.type ? `[${part.type}]` : "")).join("");
}

/** What a call is about: the tool, model or state that it names. @param {any} data */
function nameOf(data) {
  const params = data.params ?? {};
  const scoped = params.scope && params.key ? `${params.scope}.${params.key}` : undefined;
  return String(scoped ?? params.tool_name ?? params.model_id ?? params.model ?? params.kb_id ?? params.key ?? params.agent ?? params.artifact_id ?? data.resource ?? data.tool_name ?? "");
}

/**
 * @typedef {{number: number, from: number, to: number, cause: string, ended: string, tokens: number, cost: number, models: number,
 *   tools: number, idle: number}} Attempt
 * `idle`: seconds from its last entry to the first of the next one. `ended`: why there is a next one.
 */

/** What each attempt took. @param {Step[]} steps @returns {Attempt[]} */
export function attemptsOf(steps) {
  /** @type {Map<number, Attempt>} */
  const found = new Map();
  for (const step of steps) {
    let one = found.get(step.attempt);
    if (!one) found.set(step.attempt, (one = { number: step.attempt, from: step.from, to: step.to, cause: "", ended: "", tokens: 0, cost: 0, models: 0, tools: 0, idle: 0 }));
    one.from = Math.min(one.from, step.from);
    one.to = Math.max(one.to, step.to);
    if (step.kind === "attempt" && step.title === "attempt.started") one.cause = step.note;
    if (step.inherited) continue;
    if (step.kind === "model") {
      one.tokens += (step.usage?.input_tokens ?? 0) + (step.usage?.output_tokens ?? 0);
      one.cost += step.cost ?? 0;
      one.models++;
    } else if (step.kind === "tool" || (step.kind === "action" && step.sequence === undefined)) one.tools++;
  }
  const attempts = [...found.values()].sort((a, b) => a.number - b.number);
  for (const [at, one] of attempts.entries()) {
    const following = attempts[at + 1];
    if (!following) continue;
    one.ended = following.cause;
    one.idle = Math.max(0, following.from - one.to);
  }
  return attempts;
}
