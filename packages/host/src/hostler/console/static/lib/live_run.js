// A run while it works: what its results say, in their order, each once.
import { signal } from "./html.js";
import { GrowingMarkdown } from "./markdown_blocks.js";
import { loadMarkdown, markdown } from "./markdown_loaded.js";
import { beforeNextPicture } from "./turns.js";
import { TERMINAL } from "../components/status.js";

/**
 * @typedef {Record<string, any> & {run_id: string, agent: string, status: string, created_at: number}} Run
 * @typedef {{id: string, name: string, at: number}} Tool
 * @typedef {{sequence: number, message: any}} Said
 */

const MAX_REASONING = 20_000;
/** The part of the time that looking at Markdown may take. */
const SHARE = 4;
/** The most characters that are looked at before one picture; what came beside them waits for the next. */
const LOOK_CHARS = 2_000;

/** A message that is being written. `blocks` changes at most once for each picture. */
export class Growing {
  constructor() {
    this._text = new GrowingMarkdown();
    this._wanted = false;
    this._after = 0;
    this.blocks = signal(/** @type {import("./markdown_blocks.js").Block[]} */ ([]));
    this.reasoning = signal("");
    /** What was not looked at. */
    this._ahead = "";
    this._thought = "";
    if (!markdown.peek()) loadMarkdown().then(() => this._want());
  }

  /** @param {string} text @param {string} [reasoning] */
  append(text, reasoning = "") {
    this._ahead += text;
    if (this._thought.length < MAX_REASONING) this._thought += reasoning;
    this._want();
  }

  _want() {
    if (this._wanted) return;
    this._wanted = true;
    setTimeout(() => beforeNextPicture(() => this._look()), Math.max(0, this._after - performance.now()));
  }

  _look() {
    this._wanted = false;
    const began = performance.now();
    this._text.append(this._ahead.slice(0, LOOK_CHARS));
    this._ahead = this._ahead.slice(LOOK_CHARS);
    this._text.settle();
    this.blocks.value = [...this._text.closed, ...this._text.tail];
    this.reasoning.value = this._thought;
    this._after = began + SHARE * (performance.now() - began);
    if (this._ahead) this._want();
  }
}

export class LiveRun {
  /** @param {Run} run */
  constructor(run) {
    /** @type {Run} */
    this.run = run;
    /** The sequence of the last result that was taken. */
    this.sequence = 0;
    /** @type {Said[]} */
    this.said = [];
    /** @type {Map<string, Growing>} by the id of the message */
    this.growing = new Map();
    /** @type {Map<string, Tool>} */
    this.tools = new Map();
    /** @type {any[]} */
    this.files = [];
    this.steps = 0;
    this.error = "";
  }

  get over() {
    return TERMINAL.has(this.run.status);
  }

  /** Whether results before this one are missing. @param {any} result */
  misses(result) {
    return result.sequence > this.sequence + 1;
  }

  /**
   * Take a result that was not taken yet.
   * @param {any} result
   * @returns {"nothing" | "text" | "parts" | "history"} what has to be shown anew: the text that grows, the parts of the
   *   run, or also the messages of the conversation
   */
  take(result) {
    if (result.sequence <= this.sequence) return "nothing";
    this.sequence = result.sequence;
    const { type, data = {} } = result;
    if (type === "message.delta") return this._delta(data.chunk ?? {});
    if (type === "message.completed") {
      const message = data.message ?? {}, id = message.message_id ?? "";
      this.growing.delete(this.growing.has(id) ? id : [...this.growing.keys()][0]);
      this.said = [...this.said, { sequence: result.sequence, message }];
      return "history";
    }
    if (type === "tool.call.started") {
      this.steps += 1;
      this.tools = new Map(this.tools).set(String(data.tool_call_id), { id: String(data.tool_call_id), name: data.tool_name ?? "", at: Date.now() / 1000 });
    } else if (type === "tool.call.completed") {
      this.tools = new Map(this.tools);
      this.tools.delete(String(data.tool_call_id));
    } else if (type === "artifact.created") {
      this.files = [...this.files, data];
      return "history";
    } else if (type === "attempt.started") {
      this.said = this.said.filter((one) => one.sequence <= data.discard_after);
      this.growing.clear();
      this.tools = new Map();
      return "history";
    } else if (type === "run.failed") {
      this.error = String(data.error ?? data.message ?? data.code ?? "");
      this.growing.clear();
    } else if (type === "run.completed") {
      this.tools = new Map();
      return "history";
    } else if (type === "log" || type === "state.updated") return "nothing";
    return "parts";
  }

  /** @param {any} chunk @returns {"text" | "parts"} */
  _delta(chunk) {
    const id = chunk.message_id ?? "";
    const known = this.growing.get(id);
    const growing = known ?? new Growing();
    const text = typeof chunk.content === "string" ? chunk.content : (chunk.content ?? []).map((/** @type {any} */ part) => part.text ?? "").join("");
    growing.append(text, chunk.reasoning ?? "");
    if (!known) this.growing = new Map(this.growing).set(id, growing);
    return known ? "text" : "parts";
  }
}
