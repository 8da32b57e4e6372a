// The one stream of a page, whatever its components follow: a browser has six connections for all its windows.
import { Problem, follow } from "./api.js";

/**
 * @typedef {import("./api.js").StreamEvent} StreamEvent
 * @typedef {{conversation_id?: string, agent?: string}} Place
 * @typedef {{place: Place | null, begin: () => void, take: (event: StreamEvent) => void, up: (connected: boolean) => void,
 *   fail: (error: unknown) => void}} Follower
 * `place`: where it follows everything; null: what changes in the workspace. `begin` is called once the stream is open,
 * and again where the host has no longer what follows the last cursor.
 */

/** What a page follows of the whole workspace. */
const EVERYWHERE = ["run.status", "pause.status", "pause.call"];
/** A tab that nobody looks at lets its connection go after so long. */
const HIDDEN_MS = 10_000;
const TOGETHER_MS = 20;

/** @type {Set<Follower>} */
const followers = new Set();
/** One; a second only while two places are looked at, as where two runs at work are compared. @type {Connection[]} */
const connections = [];
let timer = 0, hidden = 0;

/** Follow; what is returned ends it. @param {Follower} follower */
export function join(follower) {
  followers.add(follower);
  soon();
  return () => {
    followers.delete(follower);
    soon();
  };
}

const soon = () => void (timer ||= window.setTimeout(arrange, TOGETHER_MS));

/** @param {Place | null} place */
const keyOf = (place) => (place ? JSON.stringify([place.conversation_id ?? null, place.agent ?? null]) : "");

/** Have as many connections as there are places, and at least one; the first has the workspace, too. */
function arrange() {
  timer = 0;
  const places = new Map();
  for (const { place } of followers) if (place) places.set(keyOf(place), place);
  const first = keyOf(connections[0]?.place ?? null), keys = [...places.keys()].sort((a, b) => Number(b === first) - Number(a === first));
  if (!keys.length && followers.size) keys.push("");
  for (const left of connections.splice(keys.length)) left.rest();
  for (const [at, key] of keys.entries()) {
    const members = [...followers].filter(({ place }) => (place ? keyOf(place) === key : at === 0));
    (connections[at] ??= new Connection()).serve(places.get(key) ?? null, members);
  }
}

document.addEventListener("visibilitychange", () => {
  clearTimeout(hidden);
  const all = (/** @type {(one: Connection) => void} */ call) => connections.forEach(call);
  if (document.hidden) hidden = window.setTimeout(() => all((one) => one.rest()), HIDDEN_MS);
  else all((one) => one.wake());
});

class Connection {
  constructor() {
    /** @type {Place | null} */
    this.place = null;
    this._cursor = "";
    this._open = false;
    /** @type {Set<Follower>} */
    this._members = new Set();
    /** Who has not begun. @type {Set<Follower>} */
    this._fresh = new Set();
    /** @type {AbortController | null} */
    this._current = null;
  }

  /** Follow this from now on, for these. A cursor is good for each place. @param {Place | null} place @param {Follower[]} members */
  serve(place, members) {
    const moved = keyOf(place) !== keyOf(this.place);
    for (const one of members) if (!this._members.has(one)) this._fresh.add(one);
    this._members = new Set(members);
    for (const one of this._fresh) if (!this._members.has(one)) this._fresh.delete(one);
    this.place = place;
    if (moved && this._current) {
      this.rest();
      this.wake();
    } else if (this._open) this._begin();
    else if (!document.hidden) this.wake();
    else if (!this._current) this._begin(); // opened behind another tab: the stream begins when it is looked at
  }

  rest() {
    this._current?.abort();
    this._current = null;
    this._open = false;
  }

  wake() {
    if (this._current) return;
    this._current = new AbortController();
    this._run(this._current.signal);
  }

  _begin() {
    const fresh = [...this._fresh];
    this._fresh.clear();
    for (const one of fresh) one.begin();
  }

  /** @param {AbortSignal} until */
  async _run(until) {
    const query = this.place ? { ...this.place, everywhere: EVERYWHERE } : { type: EVERYWHERE };
    while (!until.aborted) {
      try {
        await follow("/v1/stream", {
          query, after: this._cursor, signal: until,
          on: (event) => until.aborted || void this._members.forEach((one) => one.take(event)),
          reached: (place) => until.aborted || (this._cursor = place),
          state: (up) => until.aborted || this._state(up),
        });
      } catch (error) {
        if (!(error instanceof Problem) || error.status !== 410) return this._refused(error);
        this._cursor = "";
      }
    }
  }

  /** @param {boolean} up */
  _state(up) {
    this._open = up;
    for (const one of this._members) one.up(up);
    if (!up) return;
    if (!this._cursor) this._fresh = new Set(this._members);
    this._begin();
  }

  /** Where only a place is refused, the rest goes on. @param {unknown} error */
  _refused(error) {
    const refused = [...this._members].filter((one) => one.place || !this.place);
    this.rest();
    for (const one of refused) {
      followers.delete(one);
      one.fail(error);
    }
    soon();
  }
}
