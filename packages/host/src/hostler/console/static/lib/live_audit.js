// The audit log as far as it was read, newest first; new entries come by themselves.
import { signal } from "./html.js";
import { Unreachable, get, sleep } from "./api.js";

/** @typedef {{audit_id: string, seq: number, at: number, actor: string, actor_name: string | null, action: string, target: string, outcome: string, body: any}} Fact */

const PAGE = 100;
const LOOK_MS = 5000;
const AWAY_MS = 2000;

/** @param {Record<string, any>} filters of `GET /v1/audit` */
export function liveAudit(filters) {
  const abort = new AbortController();
  const facts = signal(/** @type {Fact[]} */ ([]));
  const state = signal(/** @type {"loading" | "ready" | Error} */ ("loading"));
  const connected = signal(true);
  /** Whether there is no older entry. */
  const all = signal(false);
  let cursor = /** @type {string | null} */ (null), loading = false;

  /** Read the next page; one without a match is followed by another, as long as the list shows its end. */
  async function more() {
    if (loading || all.value || state.value instanceof Error) return;
    loading = true;
    try {
      for (let tries = 0; tries < 20 && !all.value; tries++) {
        const page = await get("/v1/audit", { ...filters, limit: PAGE, cursor }, abort.signal);
        cursor = page.next_cursor;
        all.value = !page.has_more;
        add(page.items);
        state.value = "ready";
        if (page.items.length) break;
      }
      connected.value = true;
    } catch (error) {
      if (abort.signal.aborted) return;
      if (error instanceof Unreachable && state.value === "ready") connected.value = false;
      else state.value = /** @type {Error} */ (error);
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

  /** Look for new entries, page by page down to the newest that is known. */
  async function look() {
    const newest = facts.value[0]?.seq ?? 0;
    let next = /** @type {string | null} */ (null);
    const found = [];
    for (let pages = 0; pages < 10; pages++) {
      const page = await get("/v1/audit", { ...filters, limit: PAGE, cursor: next }, abort.signal);
      found.push(...page.items);
      next = page.next_cursor;
      if (!next || page.items.length === 0 || page.items.at(-1).seq <= newest) break;
    }
    add(found);
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
        if (abort.signal.aborted) return;
        if (error instanceof Unreachable) connected.value = false;
        else state.value = /** @type {Error} */ (error);
      }
    }
  }

  keep();
  return { facts, state, connected, all, more, stop: () => abort.abort() };
}
