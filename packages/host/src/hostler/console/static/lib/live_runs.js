// The list of runs, kept up to date by the workspace's stream.
import { signal } from "./html.js";
import { follow, get, path } from "./api.js";

/** @typedef {Record<string, any> & {run_id: string, agent: string, status: string, created_at: number}} Run */
/** @typedef {{status?: string[], agent?: string, conversation_id?: string, since?: string, until?: string}} Filters */

const PAGE = 100;
const TOGETHER_MS = 150;

/**
 * Begin a list with filters. `stop` ends it; `more` loads the next page.
 * @param {Filters} filters
 */
export function liveRuns(filters) {
  const abort = new AbortController();
  const runs = signal(/** @type {Run[]} */ ([]));
  const state = signal(/** @type {"loading" | "ready" | Error} */ ("loading"));
  const connected = signal(true);
  let cursor = /** @type {string | null} */ (null), loading = false, all = false;

  async function page() {
    if (loading || all) return;
    loading = true;
    try {
      const found = await get("/v1/runs", { ...filters, limit: PAGE, cursor }, abort.signal);
      cursor = found.next_cursor;
      all = !found.has_more;
      const known = new Set(runs.value.map((run) => run.run_id));
      runs.value = [...runs.value, ...found.items.filter((/** @type {Run} */ run) => !known.has(run.run_id))];
      state.value = "ready";
    } catch (error) {
      if (!abort.signal.aborted) state.value = /** @type {Error} */ (error);
    } finally {
      loading = false;
    }
  }

  /** @type {Set<string>} */
  const changed = new Set();
  let timer = 0;

  /** Read runs again that something happened to: many at once, each only once. */
  async function refresh() {
    timer = 0;
    const ids = [...changed];
    changed.clear();
    const found = await Promise.allSettled(ids.map((id) => get(path("runs", id), {}, abort.signal)));
    const fresh = found.flatMap((one) => (one.status === "fulfilled" ? [/** @type {Run} */ (one.value)] : [])).filter(wanted);
    const by = new Map(fresh.map((run) => [run.run_id, run]));
    const kept = runs.value.flatMap((run) => (changedTo(run, ids, by) ? [by.get(run.run_id) ?? run] : []));
    const known = new Set(kept.map((run) => run.run_id));
    const added = fresh.filter((run) => !known.has(run.run_id) && (all || !kept.length || run.created_at >= /** @type {Run} */ (kept.at(-1)).created_at));
    runs.value = [...added, ...kept].sort((a, b) => b.created_at - a.created_at || (a.run_id < b.run_id ? 1 : -1));
  }

  /** Whether a run stays in the list. @param {Run} run @param {string[]} ids @param {Map<string, Run>} by */
  const changedTo = (run, ids, by) => !ids.includes(run.run_id) || by.has(run.run_id);

  /** @param {Run} run */
  function wanted(run) {
    if (filters.status?.length && !filters.status.includes(run.status)) return false;
    if (filters.agent && run.agent !== filters.agent) return false;
    if (filters.since && run.created_at < Number(filters.since)) return false;
    if (filters.until && run.created_at > Number(filters.until)) return false;
    return !filters.conversation_id || run.conversation_id === filters.conversation_id;
  }

  page().then(() =>
    follow("/v1/stream", {
      query: { agent: filters.agent, conversation_id: filters.conversation_id, type: "run.status" },
      signal: abort.signal,
      state: (up) => (connected.value = up),
      on: ({ data }) => {
        const id = data?.run_id;
        if (!id) return;
        changed.add(id);
        timer ||= window.setTimeout(refresh, TOGETHER_MS);
      },
    }).catch((error) => (state.value = error)),
  );
  return { runs, state, connected, more: page, stop: () => abort.abort() };
}
