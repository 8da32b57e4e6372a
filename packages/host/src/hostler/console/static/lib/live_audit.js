// The audit log as far as it was read, newest first; new entries come by themselves.
import { batch, signal } from "./html.js";
import { get, isPassing, sleep } from "./api.js";

/** @typedef {{audit_id: string, seq: number, at: number, actor: string, actor_name: string | null, action: string, target: string, outcome: string, body: any}} Fact */

const PAGE = 100;
const LOOK_MS = 5000;
const AWAY_MS = 2000;
/** Pages that are read in search of one with a match, and of new entries at once. */
const MOST_EMPTY = 20;
const MOST_NEW = 10;
/** Entries are in the order in which they were stored; clocks of hosts may differ by so much. */
const SKEW_SECONDS = 3600;
const DAY_SECONDS = 86_400;

/** @param {Record<string, any>} filters of `GET /v1/audit` */
export function liveAudit(filters) {
  const abort = new AbortController();
  const began = Date.now() / 1000;
  const facts = signal(/** @type {Fact[]} */ ([]));
  const state = signal(/** @type {"loading" | "ready" | Error} */ ("loading"));
  const connected = signal(true);
  /** Whether there is no older entry. */
  const all = signal(false);
  /** Whether many entries were read in which there was no match: older ones are read when the reader asks for them. */
  const paused = signal(false);
  let cursor = /** @type {string | null} */ (null), loading = false, lists = 0;

  /** @param {unknown} error */
  function failed(error) {
    if (abort.signal.aborted) return;
    if (isPassing(error) && state.value === "ready") connected.value = false;
    else state.value = /** @type {Error} */ (error);
  }

  /** Read the next page; one without a match is followed by another, up to so many. */
  async function more() {
    if (loading || all.value || state.value instanceof Error) return;
    loading = true;
    paused.value = false;
    const list = lists;
    try {
      for (let tries = 0, found = 0; !found && !all.value; tries++) {
        if (tries === MOST_EMPTY) {
          paused.value = true;
          break;
        }
        const page = await get("/v1/audit", { ...filters, limit: PAGE, cursor }, abort.signal);
        if (list !== lists) break; // of a list that another one has replaced
        found = page.items.length;
        batch(() => {
          cursor = page.next_cursor;
          all.value = !page.has_more;
          add(page.items);
        });
      }
      batch(() => {
        state.value = "ready";
        connected.value = true;
      });
    } catch (error) {
      failed(error);
    } finally {
      loading = false;
    }
  }

  /** @param {Fact[]} found */
  function add(found) {
    const known = new Set(facts.value.map((fact) => fact.seq));
    const fresh = found.filter((fact) => !known.has(fact.seq));
    if (fresh.length) facts.value = [...facts.value, ...fresh].sort((a, b) => b.seq - a.seq);
  }

  /**
   * Look for new entries, page by page down to the newest that is known. Where that is too far away, the list begins
   * anew: it has no hole.
   */
  async function look() {
    const newest = facts.value[0];
    const since = Math.max(Number(filters.since) || 0, newest ? newest.at - SKEW_SECONDS : began - DAY_SECONDS);
    let next = /** @type {string | null} */ (null), reached = false;
    /** @type {Fact[]} */
    const found = [];
    for (let pages = 0; !reached && pages < MOST_NEW; pages++) {
      const page = await get("/v1/audit", { ...filters, since, limit: PAGE, cursor: next }, abort.signal);
      found.push(...page.items);
      next = page.next_cursor;
      reached = next === null || (newest !== undefined && found.length > 0 && found[found.length - 1].seq <= newest.seq);
    }
    if (reached || !found.length) add(found);
    else await anew();
  }

  /** Begin the list with its newest page. */
  async function anew() {
    const page = await get("/v1/audit", { ...filters, limit: PAGE }, abort.signal);
    batch(() => {
      lists++;
      cursor = page.next_cursor;
      all.value = !page.has_more;
      facts.value = page.items;
    });
  }

  async function keep() {
    await more();
    while (!abort.signal.aborted) {
      await sleep(connected.value ? LOOK_MS : AWAY_MS, abort.signal);
      if (abort.signal.aborted || document.hidden || state.value !== "ready") continue;
      try {
        await look();
        connected.value = true;
      } catch (error) {
        failed(error);
      }
    }
  }

  keep();
  return { facts, state, connected, all, paused, more, stop: () => abort.abort() };
}
