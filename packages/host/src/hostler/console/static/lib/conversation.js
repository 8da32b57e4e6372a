// A conversation as it is now: its messages, what waits, the runs that work in it, and what they wait for.
import { batch, signal } from "./html.js";
import { Problem, Unreachable, follow, get, isPassing, path, sleep } from "./api.js";
import { nudged } from "./conversations.js";
import { WAITING } from "./decide.js";
import { LiveRun } from "./live_run.js";
import { liveStream } from "./live_stream.js";
import { hasHost, shownNow } from "./outbox.js";
import { may } from "./session.js";
import { TERMINAL } from "../components/status.js";

/**
 * @typedef {Record<string, any> & {transcript_id: string, event_id: string | null, run_id: string | null, role: string,
 *   cursor: string, created_at: number, content_json: any, artifact_refs: any[], paged?: boolean}} Item
 * @typedef {Record<string, any> & {event_id: string, run_id: string | null, waits_for: "run" | "pull"}} Waiting
 * @typedef {{state: "queued" | "read" | "requeued" | "dropped", run_id: string, step?: number, next_run_id?: string | null}} Receipt
 * `paged`: of a page that was loaded beside those at the end.
 */

const PAGE = 50;
const RUNS = 50;
const TOGETHER_MS = 60;
const RETRY_MS = 1500;
const MAX_FILES = 500;
/** So many decisions that were made while the conversation was open are shown. */
const MOST_DECIDED = 5;
/** Failed runs whose reason is shown in full; of older ones the code is. */
const MOST_FAILURES = 5;

/** @param {Promise<any>} reading @returns {Promise<any>} null: there is none any more */
const unlessGone = (reading) =>
  reading.catch((error) => {
    if (!(error instanceof Problem) || error.status !== 404) throw error;
    return null;
  });

/** @param {Item[]} items @returns {Item[]} */
const paged = (items) => items.map((item) => ({ ...item, paged: true }));

/** @param {string} id */
export const openConversation = (id) => new Conversation(id);

export class Conversation {
  /** @param {string} id */
  constructor(id) {
    this.id = id;
    this.state = signal(/** @type {"loading" | "ready"} */ ("loading"));
    /** Oldest first. */
    this.items = signal(/** @type {Item[]} */ ([]));
    this.older = signal(false);
    /** Whether there are messages after the last one: those around another one were loaded. */
    this.newer = signal(false);
    this.waiting = signal(/** @type {Waiting[]} */ ([]));
    this.runs = signal(/** @type {Map<string, LiveRun>} */ (new Map()));
    /** What waits for people. */
    this.pauses = signal(/** @type {import("./decide.js").Pause[]} */ ([]));
    /** What has waited for people since the conversation was opened, and is decided or over. */
    this.decided = signal(/** @type {import("./decide.js").Pause[]} */ ([]));
    this.files = signal(/** @type {any[]} */ ([]));
    this.receipts = signal(/** @type {Map<string, Receipt>} */ (new Map()));
    this.title = signal(/** @type {string | null} */ (null));
    this.deleted = signal(false);
    this._abort = new AbortController();
    /** @type {Set<string>} what has to be read again */
    this._stale = new Set();
    this._timer = 0;
    this._reading = false;
    this._before = "";
    /** How often one went elsewhere: what comes of a former jump is dropped. */
    this._jumps = 0;
    this._live = liveStream({
      place: { conversation_id: id },
      snapshot: (stop) => this._present(stop),
      on: (event) => this._take(event),
    });
    this.connected = this._live.connected;
    this.failure = this._live.failure;
  }

  stop() {
    clearTimeout(this._timer);
    this._abort.abort();
    this._live.stop();
  }

  /** Read everything anew. @param {AbortSignal} stop */
  async _present(stop) {
    const where = { conversation_id: this.id };
    const [history, runs, pauses, files] = await Promise.all([
      get(path("conversations", this.id, "history"), { limit: PAGE }, stop),
      get("/v1/runs", { ...where, limit: RUNS }, stop),
      this._readWaits(stop),
      may("artifacts:read") ? get("/v1/artifacts", { ...where, limit: 100 }, stop) : { items: [] },
    ]);
    const known = new Map();
    for (const run of runs.items.reverse()) if (!run.parent_run_id) known.set(run.run_id, this._known(run));
    await Promise.all([...known.values()].filter((live) => !live.over).map((live) => this._catchUp(live, stop)));
    await Promise.all([...known.values()].filter((live) => live.run.status === "failed" && !live.error).slice(-MOST_FAILURES).map((live) => this._readFailure(live, stop)));
    for (const [run_id, live] of this.runs.value) if (!live.over && !known.has(run_id)) known.set(run_id, live);
    batch(() => {
      this.runs.value = known;
      this._waits(pauses);
      this.files.value = files.items;
      if (!this.newer.value) this._end(history);
      this._took(history);
      this.state.value = "ready";
    });
    for (const live of known.values()) if (!live.over) this._again(`steering ${live.run.run_id}`);
  }

  /** @param {any} run @returns {LiveRun} */
  _known(run) {
    const live = this.runs.value.get(run.run_id) ?? new LiveRun(run);
    if (!live.over) live.run = run; // what is read may be older than what the stream has said
    return live;
  }

  /** Take the newest page, and keep what was loaded before it. @param {any} history */
  _end(history) {
    const items = history.items.toReversed(), known = this.items.value;
    const place = this.newer.value ? -1 : known.findIndex((item) => item.transcript_id === items[0]?.transcript_id);
    this.newer.value = false;
    this.items.value = [...known.slice(0, Math.max(0, place)), ...items];
    if (place > 0) return;
    this._before = history.next_cursor ?? "";
    this.older.value = history.has_more;
  }

  /** @param {any} history a page that reaches the end */
  _took(history) {
    this.waiting.value = history.waiting ?? [];
    if (history.title !== undefined) this.title.value = history.title;
    shownNow(new Set([...history.items, ...this.items.value, ...this.waiting.value].flatMap((one) => one.event_id ?? [])));
    hasHost();
  }

  /** Read a run's results up to where it is now. @param {LiveRun} live @param {AbortSignal} stop */
  async _catchUp(live, stop) {
    const until = live.run.sequence ?? 0;
    if (live.sequence >= until) return;
    const enough = new AbortController();
    try {
      await follow(path("runs", live.run.run_id, "stream"), {
        after: live.sequence ? String(live.sequence) : "",
        signal: AbortSignal.any([stop, enough.signal]),
        on: ({ data }) => (live.take(data), live.sequence >= until),
      });
    } catch (error) {
      if (!(error instanceof Problem) || error.status !== 410) throw error;
      live.sequence = until; // its first results are gone: the messages are in the history
    } finally {
      enough.abort();
    }
  }

  /** What a run said last that has failed. @param {LiveRun} live @param {AbortSignal} stop */
  async _readFailure(live, stop) {
    live.sequence = Math.max(live.sequence, (live.run.sequence ?? 1) - 1);
    await this._catchUp(live, stop);
  }

  /**
   * What waits for people, and what has become of what waited here.
   * @param {AbortSignal} stop @returns {Promise<import("./decide.js").Pause[]>}
   */
  async _readWaits(stop) {
    if (!may("pauses:read")) return [];
    const open = (await get("/v1/pauses", { conversation_id: this.id, status: [...WAITING], limit: 50 }, stop)).items;
    const there = new Set(open.map((/** @type {import("./decide.js").Pause} */ pause) => pause.id));
    const left = this.pauses.value.filter((pause) => !there.has(pause.id));
    const found = await Promise.all(left.map((pause) => unlessGone(get(path("pauses", pause.id), {}, stop))));
    return [...open, ...found.filter(Boolean)];
  }

  /** @param {import("./decide.js").Pause[]} pauses */
  _waits(pauses) {
    const over = pauses.filter((pause) => !WAITING.has(pause.status)), known = new Set(pauses.map((pause) => pause.id));
    batch(() => {
      this.pauses.value = pauses.filter((pause) => WAITING.has(pause.status));
      this.decided.value = [...this.decided.value.filter((pause) => !known.has(pause.id)), ...over].slice(-MOST_DECIDED);
    });
  }

  /** @param {import("./api.js").StreamEvent} event */
  _take({ event, data }) {
    if (event === "run.status") this._status(data);
    else if (event === "event.received") nudged(), this._again("history");
    else if (event.startsWith("steering.")) this._steered(event, data);
    else if (event.startsWith("pause.")) this._again("pauses");
    else if (event === "conversation.deleted") this.deleted.value = true;
    else this._result(data);
  }

  /** @param {any} data */
  _status(data) {
    if (data.parent_run_id) return;
    const { run_id, status, agent, event_id, at, attempt, status_code } = data;
    const known = this.runs.value.get(run_id);
    const live = known ?? new LiveRun({ run_id, agent, status, event_id, created_at: at });
    live.run = { ...live.run, status, attempt, status_code, ...(TERMINAL.has(status) && { finished_at: at }), ...(status === "running" && { started_at: live.run.started_at ?? at }) };
    this.runs.value = new Map(this.runs.value).set(run_id, live);
    this._again("history");
    if (TERMINAL.has(status)) {
      nudged();
      this._again("pauses");
      this._again(`run ${run_id}`);
    }
  }

  /** @param {any} result */
  _result(result) {
    const live = this.runs.value.get(result?.run_id);
    if (!live) return;
    if (live.misses(result)) {
      live.run = { ...live.run, sequence: result.sequence };
      return this._again(`results ${result.run_id}`);
    }
    const changed = live.take(result);
    if (changed === "parts" || changed === "history") this.runs.value = new Map(this.runs.value);
    if (changed === "history") this._again(result.type === "attempt.started" ? "all" : "history");
    if (result.type === "artifact.created") this._again("files");
  }

  /** @param {string} type @param {any} data */
  _steered(type, data) {
    const state = /** @type {Receipt["state"]} */ ({ "steering.injected": "read", "steering.queued": "queued", "steering.requeued": "requeued" }[type] ?? "dropped");
    const before = this.receipts.value.get(data.event_id);
    this.receipts.value = new Map(this.receipts.value).set(data.event_id, { ...before, state, run_id: data.run_id, next_run_id: data.next_run_id });
    if (state === "read") this._again(`steering ${data.run_id}`);
    this._again("history");
  }

  /** Read again what is waited for. */
  async readPauses() {
    this._waits(await this._readWaits(this._abort.signal));
  }

  /** Read something again soon, together with what else has changed. @param {string} what */
  _again(what) {
    this._stale.add(what);
    this._timer ||= window.setTimeout(() => this._refresh(), TOGETHER_MS);
  }

  async _refresh() {
    this._timer = 0;
    if (this._reading) return;
    this._reading = true;
    while (this._stale.size && !this._abort.signal.aborted) {
      const [what] = this._stale;
      this._stale.delete(what);
      try {
        await this._readAgain(what);
      } catch (error) {
        if (this._abort.signal.aborted) return;
        if (error instanceof Problem && !isPassing(error)) continue; // gone, or not for this key
        this._stale.add(what);
        await sleep(error instanceof Unreachable ? RETRY_MS : RETRY_MS / 3, this._abort.signal);
      }
    }
    this._reading = false;
  }

  /** @param {string} what */
  async _readAgain(what) {
    const stop = this._abort.signal, [kind, id] = what.split(" ");
    if (kind === "all") await this._present(stop);
    else if (kind === "history") await this._newer(stop);
    else if (kind === "pauses") this._waits(await this._readWaits(stop));
    else if (kind === "steering") await this._readSteering(id);
    else if (kind === "files") {
      if (may("artifacts:read")) this.files.value = (await get("/v1/artifacts", { conversation_id: this.id, limit: 100 }, stop)).items.slice(0, MAX_FILES);
    } else {
      const live = this.runs.value.get(id);
      if (!live) return;
      live.run = await get(path("runs", id), {}, stop);
      await this._catchUp(live, stop);
      this.runs.value = new Map(this.runs.value);
    }
  }

  /** Read the messages after the last known one, as far as they were loaded to the end. @param {AbortSignal} stop */
  async _newer(stop) {
    for (let more = true; more; ) {
      const known = this.items.value, after = this.newer.value ? "" : known.at(-1)?.cursor;
      const page = await this._page(after ? { after, limit: 100 } : {}, stop);
      if (this.items.value !== known) continue; // all was read anew meanwhile, or others came
      more = Boolean(after) && page.has_more;
      batch(() => {
        if (after) this._append(page.items);
        else if (!this.newer.value) this._end(page);
        if (!more) this._took(page);
      });
    }
  }

  /** @param {Record<string, any>} query @param {AbortSignal} [stop] */
  _page(query, stop = this._abort.signal) {
    return get(path("conversations", this.id, "history"), { limit: PAGE, ...query }, stop);
  }

  /** @param {Item[]} items */
  _append(items) {
    if (items.length) this.items.value = [...this.items.value, ...items];
  }

  /** Load the page before the oldest message. */
  async more() {
    const known = this.items.value;
    if (!this.older.value || !this._before) return;
    const page = await this._page({ before: this._before });
    if (this.items.value[0] !== known[0]) return; // others were loaded meanwhile
    batch(() => {
      this.items.value = [...paged(page.items.reverse()), ...this.items.value];
      this._before = page.next_cursor ?? "";
      this.older.value = page.has_more;
    });
  }

  /** Load the page after the last message. */
  async later() {
    const known = this.items.value, after = known.at(-1)?.cursor;
    if (!this.newer.value || !after) return;
    const page = await this._page({ after });
    if (this.items.value.at(-1) !== known.at(-1)) return; // others were loaded meanwhile
    batch(() => {
      this._append(paged(page.items));
      this.newer.value = page.has_more;
    });
    if (!page.has_more) this._again("history"); // more may have been said while this page came
  }

  /** Load the newest messages in place of those around another one. */
  async latest() {
    if (!this.newer.value) return;
    const jump = ++this._jumps, page = await this._page({});
    if (jump !== this._jumps) return; // one has gone elsewhere meanwhile
    batch(() => {
      this._end(page);
      this._took(page);
    });
    this._again("history");
  }

  /**
   * Load the messages around one in place of those that are there, unless it is among them.
   * @param {string} id @param {string} cursor of the message
   */
  async around(id, cursor) {
    const jump = ++this._jumps;
    if (this.items.value.some((item) => item.transcript_id === id)) return;
    const later = await this._page({ after: cursor });
    const before = later.items.length ? { before: later.items[0].cursor } : {}; // without a later one it is the newest
    const page = await this._page(before);
    if (jump !== this._jumps) return; // one has gone elsewhere meanwhile
    batch(() => {
      this.items.value = paged([...page.items.toReversed(), ...later.items]);
      this._before = page.next_cursor ?? "";
      this.older.value = page.has_more;
      this.newer.value = later.has_more;
    });
    if (!later.has_more) this._again("history");
  }

  /** What became of the messages that a run absorbed. @param {string} run_id */
  async _readSteering(run_id) {
    const page = await get(path("runs", run_id, "steering"), { limit: 100 }, this._abort.signal);
    const receipts = new Map(this.receipts.value);
    for (const { event_id, status, step, next_run_id } of page.items) {
      receipts.set(event_id, { state: status === "injected" ? "read" : status, run_id, step, next_run_id });
    }
    this.receipts.value = receipts;
  }
}
