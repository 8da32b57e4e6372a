// What waits for people, for every page: one list, kept up to date by the workspace's stream.
import { computed, signal } from "./html.js";
import { Problem, get, path } from "./api.js";
import { WAITING, waitsForMe } from "./decide.js";
import { liveStream } from "./live_stream.js";
import { may } from "./session.js";

/** @typedef {import("./decide.js").Pause} Pause */

const PAGE = 100;
/** More than a person decides in a day: the rest comes up as these are decided. */
const MOST = 1000;
const MOST_KNOWN = 2 * MOST;
const TOGETHER_MS = 120;
/** So many pauses that changed at once are read one by one; more of them as a list. */
const FEW = 8;
/** Votes are in no stream; and without one, or behind another tab, everything is read now and then. */
const VOTES_MS = 5000;
const POLL_MS = 10_000;
const HIDDEN_POLL_MS = 30_000;

/** Every pause that was looked at, also those that are over meanwhile. @type {{value: Map<string, Pause>}} */
const known = signal(new Map());
/** Null: not read yet. @type {{value: unknown}} */
export const failure = signal(/** @type {unknown} */ (null));
export const ready = signal(false);
export const connected = signal(true);
/** Whether there are more than are read. */
export const more = signal(false);

const byTime = (/** @type {Pause} */ a, /** @type {Pause} */ b) => a.created_at - b.created_at || (a.id < b.id ? -1 : 1);
/** What waits for people, oldest first. @type {{readonly value: Pause[]}} */
export const waiting = computed(() => [...known.value.values()].filter((pause) => WAITING.has(pause.status)).sort(byTime));
/** What waits for this person. @type {{readonly value: Pause[]}} */
export const mine = computed(() => waiting.value.filter(waitsForMe));

/** A pause as far as it is known. @param {string} id @returns {Pause | undefined} */
export const pauseOf = (id) => known.value.get(id);

const waitingRuns = computed(() => new Set(waiting.value.map((pause) => pause.run_id)));

/** The status of a run for its reader: one that waits for people while it still holds a process waits, too. @param {{run_id: string, status: string, waiting?: boolean}} run */
export const shownStatus = (run) => (run.status === "running" && (may("pauses:read") ? waitingRuns.value.has(run.run_id) : run.waiting) ? "paused" : run.status);

/** What was decided or is over, as far as it is known, newest first. @type {{readonly value: Pause[]}} */
export const over = computed(() => [...known.value.values()].filter((pause) => !WAITING.has(pause.status)).sort((a, b) => byTime(b, a)));

/** What a run waits for, and what of it was decided while the page was open; oldest first. @param {string} runId */
export const pausesOf = (runId) => [...known.value.values()].filter((pause) => pause.run_id === runId).sort(byTime);

let current = new AbortController();
current.abort();

/** @param {Pause[]} pauses @param {string[]} [gone] */
function take(pauses, gone = []) {
  const next = new Map(known.value);
  for (const pause of pauses) next.set(pause.id, pause);
  for (const id of gone) next.delete(id);
  if (next.size > MOST_KNOWN) for (const [id, pause] of next) if (!WAITING.has(pause.status)) next.delete(id);
  known.value = next;
}

/** Read one pause again; null: there is none for this person. @param {string} id @returns {Promise<Pause | null>} */
export async function readPause(id) {
  const { signal: until } = current;
  try {
    const pause = await get(path("pauses", id), {}, until);
    if (!until.aborted) take([pause]);
    return pause;
  } catch (error) {
    if (!(error instanceof Problem) || error.status !== 404) throw error;
    if (!until.aborted) take([], [id]);
    return null;
  }
}

/** Read everything that waits. @param {AbortSignal} until */
async function readAll(until) {
  /** @type {Pause[]} */
  let found = [];
  let cursor = null;
  do {
    const page = await get("/v1/pauses", { status: [...WAITING], limit: PAGE, cursor }, until);
    found = [...found, ...page.items];
    cursor = page.next_cursor;
  } while (cursor && found.length < MOST);
  if (until.aborted) return;
  more.value = cursor !== null;
  const there = new Set(found.map((pause) => pause.id));
  const left = waiting.value.filter((pause) => !there.has(pause.id)).map((pause) => pause.id);
  take(found);
  ready.value = true;
  // what waits no longer is shown as what it has become
  if (!cursor) await Promise.all(left.slice(0, FEW).map(readPause)).then(() => take([], left.slice(FEW)));
}

/** Begin, for as long as one person is signed in. Returns what ends it. */
export function beginPauses() {
  current.abort();
  current = new AbortController();
  const { signal: until } = current;
  known.value = new Map();
  ready.value = false;
  failure.value = null;
  connected.value = true;
  if (!may("pauses:read")) return () => {};

  /** @type {Set<string>} */
  const changed = new Set();
  let timer = 0;
  const again = () => {
    timer = 0;
    const ids = [...changed];
    changed.clear();
    const reading = ids.length > FEW ? readAll(until) : Promise.all(ids.map(readPause));
    reading.catch(() => {}); // the host is away: once it is back, all is read
  };
  const poll = (/** @type {() => boolean} */ wanted, /** @type {number} */ ms) => {
    const ticking = setInterval(() => wanted() && readAll(until).catch(() => {}), ms);
    until.addEventListener("abort", () => clearInterval(ticking));
  };
  poll(() => document.hidden, HIDDEN_POLL_MS);

  if (may("runs:read")) {
    const stream = liveStream({
      types: ["pause.status", "pause.call"],
      snapshot: readAll,
      on: ({ data }) => {
        if (!data?.pause_id) return;
        changed.add(data.pause_id);
        timer ||= window.setTimeout(again, TOGETHER_MS);
      },
    });
    const watch = [
      stream.connected.subscribe((/** @type {boolean} */ up) => (connected.value = up)),
      stream.failure.subscribe((/** @type {unknown} */ error) => (failure.value = error)),
    ];
    until.addEventListener("abort", () => {
      stream.stop();
      for (const end of watch) end();
      clearTimeout(timer);
    });
    const voted = () => !document.hidden && waiting.value.some((pause) => pause.calls.some((call) => call.approvals_needed > 1));
    poll(voted, VOTES_MS);
  } else {
    const read = () => readAll(until).then(() => ((connected.value = true), (failure.value = null)), (error) => {
      if (until.aborted) return;
      if (error instanceof Problem) failure.value = error;
      else connected.value = false;
    });
    read();
    const ticking = setInterval(() => document.hidden || read(), POLL_MS);
    until.addEventListener("abort", () => clearInterval(ticking));
  }
  const mineNow = current;
  return () => mineNow.abort();
}
