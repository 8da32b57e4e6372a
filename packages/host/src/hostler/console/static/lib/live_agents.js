// The agents of the workspace, with their last runs, kept up to date.
import { signal } from "./html.js";
import { get, path } from "./api.js";
import { t } from "./i18n.js";
import { liveStream } from "./live_stream.js";
import { may } from "./session.js";

/**
 * @typedef {{agent_id: string, name: string, version: number, spec: any, made_at: number, made_by: string | null,
 *   made_by_name: string | null, problems: {problem: string, place: string, severity: string}[] | null}} Agent
 * @typedef {{runs: number, failed: number}} Sum
 */

/** Who made a version, in words. @param {Agent} agent */
export const makerOf = (agent) =>
  agent.made_by === null ? t("agents.by_unknown") : agent.made_by === "config file" ? t("agents.by_file") : agent.made_by_name ?? agent.made_by;

const PAGE = 200;
const MOST = 10_000;
const AGAIN_MS = 15_000;
const TOGETHER_MS = 200;
export const DAYS = 7;

/**
 * `lastRuns` has what `look` was called for, by name; null: it never ran. `sums`: of the last seven days.
 */
export function liveAgents() {
  const agents = signal(/** @type {Agent[]} */ ([]));
  const state = signal(/** @type {"loading" | "ready" | Error} */ ("loading"));
  const lastRuns = signal(/** @type {Record<string, any>} */ ({}));
  const sums = signal(/** @type {Record<string, Sum>} */ ({}));
  const abort = new AbortController();

  /** Agents have no stream of their own: they are read again from time to time, and when the reader comes back. */
  async function read() {
    try {
      let items = /** @type {Agent[]} */ ([]), cursor = null;
      do {
        const page = await get("/v1/agents", { limit: PAGE, cursor }, abort.signal);
        items = [...items, ...page.items];
        cursor = page.next_cursor;
      } while (cursor && items.length < MOST);
      agents.value = items;
      state.value = "ready";
      if (may("usage:read") && items.length) sums.value = summed(await get("/v1/usage", { since: Date.now() / 1000 - DAYS * 86_400 }, abort.signal));
    } catch (error) {
      if (!abort.signal.aborted && state.value !== "ready") state.value = /** @type {Error} */ (error);
    }
  }

  /** @type {Set<string>} */
  const asked = new Set();
  /** Read the last run of an agent, once; it is kept up to date from then on. @param {string} name */
  function look(name) {
    if (asked.has(name) || !may("runs:read")) return;
    asked.add(name);
    get("/v1/runs", { agent: name, limit: 1 }, abort.signal).then(
      (page) => (lastRuns.value = { ...lastRuns.value, [name]: lastRuns.value[name] ?? page.items[0] ?? null }),
      () => asked.delete(name),
    );
  }

  /** @type {Set<string>} */
  const changed = new Set();
  let timer = 0;
  async function refresh() {
    timer = 0;
    const ids = [...changed];
    changed.clear();
    const found = await Promise.allSettled(ids.map((id) => get(path("runs", id), {}, abort.signal)));
    const next = { ...lastRuns.value };
    for (const one of found) {
      if (one.status !== "fulfilled") continue;
      const run = one.value, known = next[run.agent];
      if (!known || known.run_id === run.run_id || known.created_at <= run.created_at) next[run.agent] = run;
    }
    lastRuns.value = next;
  }

  const stream = may("runs:read")
    ? liveStream({
        types: ["run.status"],
        snapshot: read,
        on: ({ data }) => {
          if (!data?.run_id) return;
          changed.add(data.run_id);
          timer ||= window.setTimeout(refresh, TOGETHER_MS);
        },
      })
    : null;
  if (!stream) read();
  const clock = setInterval(() => document.hidden || read(), AGAIN_MS);
  const back = () => document.hidden || read();
  document.addEventListener("visibilitychange", back, { signal: abort.signal });
  const stop = () => (stream?.stop(), clearInterval(clock), clearTimeout(timer), abort.abort());
  return { agents, state, lastRuns, sums, look, read, stop, connected: stream?.connected ?? signal(true) };
}

/** @param {any} report */
function summed(report) {
  /** @type {Record<string, Sum>} */
  const found = {};
  for (const day of report.items) {
    const sum = (found[day.agent] ??= { runs: 0, failed: 0 });
    sum.runs += day.runs;
    sum.failed += day.failed;
  }
  return found;
}
