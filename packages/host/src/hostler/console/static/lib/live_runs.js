// The list of runs, kept up to date by the workspace's stream.
import { batch, computed, signal } from "./html.js";
import { get, isPassing, path } from "./api.js";
import { liveStream } from "./live_stream.js";
import { RunPages } from "./run_pages.js";

/** @typedef {import("./run_pages.js").Run} Run @typedef {import("./run_pages.js").Filters} Filters */
/** @typedef {import("./run_pages.js").ListPlace & {fresh: number}} Place `fresh`: rows above the list. */

const TOGETHER_MS = 200;
const RETRY_MS = 1000;
const MAX_TOGETHER = 40;
const MAX_FRESH = 500;

/**
 * Begin a list with filters. `stop` ends it. `fresh`: runs that began since. `stale`: there may be others that match.
 * `place`: of the same list before, which begins where it began.
 * @param {Filters} filters @param {Place | null} [place]
 */
export function liveRuns(filters, place = null) {
  const abort = new AbortController();
  const pages = signal(new RunPages(filters, abort.signal, place));
  const fresh = signal(/** @type {Run[]} */ ([]));
  const ready = signal(false);
  const stale = signal(false);
  /** @type {Set<string>} */
  const changed = new Set();
  let timer = 0;

  /** Read the list; again where what happened since is not known. @param {AbortSignal} until */
  async function begin(until) {
    const next = ready.value ? new RunPages(filters, abort.signal) : pages.value, since = await next.begin();
    if (until.aborted) return;
    batch(() => {
      pages.value = next;
      fresh.value = since ?? [];
      stale.value = since === null;
      ready.value = true;
    });
  }

  /** Read runs again that something happened to: many at once, each only once. */
  async function refresh() {
    timer = 0;
    const ids = [...changed].slice(0, MAX_TOGETHER);
    for (const id of ids) changed.delete(id);
    const found = await Promise.allSettled(ids.map((id) => get(path("runs", id), {}, abort.signal)));
    if (abort.signal.aborted) return;
    const failed = ids.filter((_, at) => found[at].status === "rejected" && isPassing(found[at].reason));
    for (const id of failed) changed.add(id);
    if (changed.size) timer ||= window.setTimeout(refresh, failed.length ? RETRY_MS : TOGETHER_MS);
    /** @type {Map<string, Run>} */
    const by = new Map(found.flatMap((one) => (one.status === "fulfilled" ? [[one.value.run_id, { ...one.value, output: null }]] : [])));
    pages.value.update(by);
    const known = new Set(fresh.value.map((run) => run.run_id));
    const others = [...by.values()].filter((run) => !known.has(run.run_id));
    const unseen = others.filter((run) => !pages.value.has(run.run_id) && matches(run));
    const added = unseen.filter((run) => run.created_at >= pages.value.newest);
    if (others.length > added.length) pages.value.changed();
    // what a run says and which tools it used is found by the host alone
    const asks = added.length > 0 && Boolean(filters.text || filters.tool || known.size + added.length > MAX_FRESH);
    // with filters of what changes, an older run may belong to the list only now
    stale.value ||= asks || (unseen.length > added.length && Boolean(filters.status?.length || filters.min_cost));
    const all = [...fresh.value.map((run) => by.get(run.run_id) ?? run).filter(matches), ...(asks ? [] : added)];
    fresh.value = all.sort((a, b) => b.created_at - a.created_at || (a.run_id < b.run_id ? 1 : -1));
  }

  /** Whether a run belongs to the list, as far as can be said here. @param {Run} run */
  function matches(run) {
    if (filters.status?.length && !filters.status.includes(run.status)) return false;
    if (filters.agent && run.agent !== filters.agent) return false;
    if (filters.since && run.created_at < Number(filters.since)) return false;
    if (filters.until && run.created_at > Number(filters.until)) return false;
    if (filters.min_cost && (run.cost ?? 0) < Number(filters.min_cost)) return false;
    return !filters.conversation_id || run.conversation_id === filters.conversation_id;
  }

  const look = (/** @type {string} */ id) => {
    changed.add(id);
    timer ||= window.setTimeout(refresh, TOGETHER_MS);
  };
  const stream = liveStream({
    types: ["run.status", "pause.status"],
    snapshot: begin,
    on: ({ data }) => {
      const parent = data.parent_run_id; // it may wait for this one
      if (parent && (pages.value.has(parent) || fresh.value.some((run) => run.run_id === parent))) look(parent);
      if (filters.agent && data.agent && filters.agent !== data.agent) return;
      if (filters.conversation_id && filters.conversation_id !== data.conversation_id) return;
      look(data.run_id);
    },
  });
  const state = computed(() => stream.failure.value ?? (ready.value ? "ready" : "loading"));
  const stop = () => (stream.stop(), clearTimeout(timer), abort.abort());
  /** @returns {Place | null} */
  const shown = () => (pages.value.newest ? { newest: pages.value.newest, length: pages.value.length.value, fresh: fresh.value.length } : null);
  /** How many more rows than at `place` are above the same run. */
  const above = () => (place ? fresh.value.length - place.fresh + pages.value.after(place.newest) : 0);
  return { pages, fresh, state, connected: stream.connected, stale, stop, shown, above };
}
