// Runs of a list of any length, read where the reader looks: what is far away is let go.
import { get } from "./api.js";
import { signal } from "./html.js";

/** @typedef {Record<string, any> & {run_id: string, agent: string, status: string, created_at: number}} Run */
/** @typedef {{status?: string[], agent?: string, conversation_id?: string, since?: string, until?: string, min_cost?: string, tool?: string, text?: string}} Filters */
/** @typedef {{newest: number, length: number}} ListPlace `newest`: when its first run began; of `length` rows. */
/** @typedef {{runs: number, failed: number, open: number, tokens: number, cost: number | null, seconds: number, timed: number, over: boolean}} Totals */

export const PAGE = 100;
const PART = 5000;
const MAX_PAGES = 30;
const MAX_ASKED = 2;
const TOTALS_MS = 1000;
/** @type {Totals} */
const NO_TOTALS = { runs: 0, failed: 0, open: 0, tokens: 0, cost: null, seconds: 0, timed: 0, over: false };

/** Whether a list has all runs of one walk through an index, so that any place of it can be read at once. @param {Filters} filters */
export const isOneWalk = (filters) =>
  !filters.status?.length && !filters.min_cost && !filters.text && [filters.agent, filters.conversation_id, filters.tool].filter(Boolean).length <= 1;

export class RunPages {
  /** @param {Filters} filters @param {AbortSignal} abort @param {ListPlace | null} [place] of the same list before */
  constructor(filters, abort, place = null) {
    this._filters = filters;
    this._abort = abort;
    this._any = isOneWalk(filters);
    this._place = this._any ? place : null;
    /** By the number of the page; the last used are at the end. @type {Map<number, Run[]>} */
    this._pages = new Map();
    /** Where pages begin, that are read one after the other. @type {(string | null)[]} */
    this._begins = [null];
    /** Where the parts of the totals begin. @type {(string | null)[]} */
    this._parts = [null];
    /** @type {Set<number>} */
    this._asked = new Set();
    this._wanted = /** @type {number[]} */ ([]);
    this._until = filters.until || (this._place ? String(this._place.newest) : undefined);
    this._seen = new Set();
    this.all = false;
    /** The moment up to which the list goes, if it has a first run. */
    this.newest = 0;
    /** How many rows there are, as far as is known. */
    this.length = signal(0);
    /** Counts what came, for who draws it. */
    this.drawn = signal(0);
    this.totals = signal(NO_TOTALS);
    /** Whether runs have changed since the totals were read. */
    this._changed = false;
    this._summing = 0;
    this.failure = signal(/** @type {unknown} */ (null));
  }

  /**
   * Read the first page, then the totals in parts. Throws what the host refuses. Returns the runs that began since the list of
   * `place`; null: more than a page.
   * @returns {Promise<Run[] | null>}
   */
  async begin() {
    const items = await this._read(0), since = this._place ? await this._since(this._place.newest, items) : [];
    this.newest = items[0]?.created_at ?? 0;
    if (this._any && items[0]) this._until ??= String(this.newest);
    if (this._place) this.length.value = this._place.length;
    this._keep(0, items);
    this._sum().catch((error) => this._abort.aborted || (this.failure.value = error));
    return since;
  }

  /** @param {number} newest @param {Run[]} known @returns {Promise<Run[] | null>} */
  async _since(newest, known) {
    const found = await get("/v1/runs", { ...this._filters, since: newest, limit: PAGE }, this._abort), ids = new Set(known.map((run) => run.run_id));
    return found.has_more ? null : found.items.filter((/** @type {Run} */ run) => !ids.has(run.run_id));
  }

  /** @param {number} index @returns {Run | null} */
  at(index) {
    return this._pages.get(Math.floor(index / PAGE))?.[index % PAGE] ?? null;
  }

  /** Have the rows from `first` on, up to `last`, read. @param {number} first @param {number} last */
  want(first, last) {
    const end = Math.floor(Math.max(0, Math.min(last, this.length.value)) / PAGE);
    this._wanted = [];
    for (let page = Math.floor(first / PAGE); page <= end; page++) {
      const known = this._pages.get(page);
      if (known) {
        this._pages.delete(page);
        this._pages.set(page, known);
      } else this._wanted.push(page);
    }
    this._ask();
  }

  _ask() {
    for (const page of this._wanted) {
      if (this._asked.size >= MAX_ASKED) return;
      if (this._asked.has(page) || this._pages.has(page) || (this._any ? page * PAGE >= Math.min(this.length.value, this._parts.length * PART) : this._begins[page] === undefined)) continue;
      this._asked.add(page);
      this._read(page)
        .then((items) => this._keep(page, items), (error) => this._abort.aborted || (this.failure.value = error))
        .finally(() => {
          this._asked.delete(page);
          this._ask();
        });
    }
  }

  /** @param {number} page @returns {Promise<Run[]>} */
  async _read(page) {
    const filters = { ...this._filters, until: this._until };
    if (this._any && page > 0) {
      const part = Math.min(Math.floor((page * PAGE) / PART), this._parts.length - 1);
      const skip = page * PAGE - part * PART;
      return (await get("/v1/runs", { ...filters, limit: PAGE, cursor: this._parts[part], skip }, this._abort)).items;
    }
    /** @type {Run[]} */
    const items = [];
    let cursor = this._any ? null : this._begins[page];
    // with rare filters the host answers step by step
    do {
      const found = await get("/v1/runs", { ...filters, limit: PAGE - items.length, cursor }, this._abort);
      items.push(...found.items);
      cursor = found.next_cursor;
    } while (cursor !== null && items.length < PAGE && !this._any);
    if (!this._any && cursor !== null) this._begins[page + 1] = cursor;
    this.all = this.all || cursor === null;
    return items;
  }

  /** @param {number} page @param {Run[]} items */
  _keep(page, items) {
    this._pages.set(page, items);
    for (const old of this._pages.keys()) if (this._pages.size > MAX_PAGES) this._pages.delete(old);
    // where others may follow, one more row stands for them
    const goesOn = !this._any && this._begins[page + 1] !== undefined, end = page * PAGE + items.length + (goesOn ? 1 : 0);
    if (end > this.length.value || (!this._any && !goesOn)) this.length.value = end;
    this.failure.value = null;
    this.drawn.value++;
  }

  async _sum() {
    let cursor = null;
    do {
      /** @type {any} */
      const part = await get("/v1/runs/totals", { ...this._filters, until: this._until, cursor }, this._abort);
      this.totals.value = withPart(this.totals.value, part);
      cursor = part.next_cursor;
      if (this._any) {
        if (cursor !== null) this._parts.push(cursor);
        this.length.value = cursor === null ? this.totals.value.runs : Math.max(this.length.value, this.totals.value.runs);
        this._ask();
      }
    } while (cursor !== null && !this._abort.aborted);
    if (this._changed) this.changed();
  }

  /** Read the totals again in a moment, a longer one where there are many parts: runs of the list have changed. */
  changed() {
    this._changed = true;
    if (this._summing || !this.totals.value.over) return;
    this._summing = window.setTimeout(() => {
      this._sumAgain().catch((error) => this._abort.aborted || (this.failure.value = error)).finally(() => {
        this._summing = 0;
        if (this._changed && !this._abort.aborted) this.changed();
      });
    }, TOTALS_MS * this._parts.length);
  }

  async _sumAgain() {
    this._changed = false;
    let totals = NO_TOTALS, cursor = null;
    do {
      /** @type {any} */
      const part = await get("/v1/runs/totals", { ...this._filters, until: this._until ?? String(this.newest), cursor }, this._abort);
      totals = withPart(totals, part);
      cursor = part.next_cursor;
    } while (cursor !== null);
    this.totals.value = totals;
  }

  /** Show runs as they are now, where they are known. @param {Map<string, Run>} fresh */
  update(fresh) {
    for (const [page, items] of this._pages) {
      if (!items.some((run) => fresh.has(run.run_id))) continue;
      this._pages.set(page, items.map((run) => fresh.get(run.run_id) ?? run));
    }
    this.drawn.value++;
  }

  /** Whether the list has a run among what is kept of it. @param {string} id */
  has(id) {
    return [...this._pages.values()].some((items) => items.some((run) => run.run_id === id));
  }

  /** How many runs of the list began after a moment, as far as the newest page tells. @param {number} moment */
  after(moment) {
    return (this._pages.get(0) ?? []).filter((run) => run.created_at > moment).length;
  }
}

/** @param {Totals} before @param {any} part as the host gives it @returns {Totals} */
function withPart(before, part) {
  const of = (/** @type {string} */ name) => part.by_status[name] ?? 0;
  return {
    runs: before.runs + part.runs, failed: before.failed + of("failed") + of("timeout"),
    open: before.open + of("queued") + of("claimed") + of("running") + of("paused"),
    tokens: before.tokens + (part.input_tokens ?? 0) + (part.output_tokens ?? 0),
    cost: part.cost === null ? before.cost : (before.cost ?? 0) + part.cost,
    seconds: before.seconds + part.seconds, timed: before.timed + part.timed, over: !part.has_more,
  };
}

/** With the totals of runs that began since. @param {Totals} totals @param {Run[]} fresh @returns {Totals} */
export const withRuns = (totals, fresh) => fresh.reduce((before, run) => ({ ...withPart(before, totalsOf(run)), over: totals.over }), totals);

/** @param {Run} run */
const totalsOf = ({ status, usage, cost, started_at, finished_at }) => {
  const timed = typeof started_at === "number" && typeof finished_at === "number";
  return {
    runs: 1, by_status: { [status]: 1 }, input_tokens: usage?.input_tokens, output_tokens: usage?.output_tokens, cost: cost ?? null,
    timed: timed ? 1 : 0, seconds: timed ? finished_at - started_at : 0,
  };
};
