// The list of runs, kept up to date by the workspace's stream.
import { signal } from "./html.js";
import { follow, get, path } from "./api.js";
import { RunPages, isOneWalk } from "./run_pages.js";

/** @typedef {import("./run_pages.js").Run} Run @typedef {import("./run_pages.js").Filters} Filters */

const TOGETHER_MS = 200;
const MAX_TOGETHER = 40;
const MAX_FRESH = 500;

/**
 * Begin a list with filters. `stop` ends it. `fresh`: runs that began since. `stale`: there may be others that match.
 * @param {Filters} filters
 */
export function liveRuns(filters) {
  const abort = new AbortController();
  const pages = new RunPages(filters, abort.signal);
  const fresh = signal(/** @type {Run[]} */ ([]));
  const state = signal(/** @type {"loading" | "ready" | Error} */ ("loading"));
  const connected = signal(true);
  const stale = signal(false);
  /** @type {Set<string>} */
  const changed = new Set();
  let timer = 0;

  /** Read runs again that something happened to: many at once, each only once. */
  async function refresh() {
    timer = 0;
    const ids = [...changed].slice(0, MAX_TOGETHER);
    for (const id of ids) changed.delete(id);
    if (changed.size) timer = window.setTimeout(refresh, TOGETHER_MS);
    const found = await Promise.allSettled(ids.map((id) => get(path("runs", id), {}, abort.signal)));
    /** @type {Map<string, Run>} */
    const by = new Map(found.flatMap((one) => (one.status === "fulfilled" ? [[one.value.run_id, { ...one.value, output: null }]] : [])));
    pages.update(by);
    const known = new Set(fresh.value.map((run) => run.run_id));
    const added = [...by.values()].filter((run) => !known.has(run.run_id) && !pages.has(run.run_id) && wanted(run));
    if (added.length && !(isOneWalk(filters) && !filters.tool) && !filters.status?.length) stale.value = true;
    else if (known.size + added.length > MAX_FRESH) stale.value = true;
    else {
      const all = [...fresh.value.map((run) => by.get(run.run_id) ?? run), ...added];
      fresh.value = all.sort((a, b) => b.created_at - a.created_at || (a.run_id < b.run_id ? 1 : -1));
    }
  }

  /** Whether a run belongs above the list, as far as can be said here. @param {Run} run */
  function wanted(run) {
    if (filters.status?.length && !filters.status.includes(run.status)) return false;
    if (filters.agent && run.agent !== filters.agent) return false;
    if (filters.since && run.created_at < Number(filters.since)) return false;
    if (filters.until && run.created_at > Number(filters.until)) return false;
    if (filters.min_cost && (run.cost ?? 0) < Number(filters.min_cost)) return false;
    if (filters.conversation_id && run.conversation_id !== filters.conversation_id) return false;
    return run.created_at >= pages.newest;
  }

  async function begin() {
    await pages.begin();
    state.value = "ready";
    await follow("/v1/stream", {
      query: { agent: filters.agent, conversation_id: filters.conversation_id, type: "run.status" },
      signal: abort.signal,
      state: (up) => (connected.value = up),
      on: ({ data }) => {
        const id = data?.run_id;
        if (!id) return;
        changed.add(id);
        timer ||= window.setTimeout(refresh, TOGETHER_MS);
      },
    });
  }
  begin().catch((error) => abort.signal.aborted || (state.value = error));
  return { pages, fresh, state, connected, stale, stop: () => abort.abort() };
}
