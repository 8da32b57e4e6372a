// The HTTP API: requests of this browser's session, pages of lists, and event streams that resume.
import { Turn } from "./turns.js";

/** An answer that refuses: RFC 9457, as the API sends it. */
export class Problem extends Error {
  /** @param {number} status @param {Record<string, any>} document */
  constructor(status, document) {
    super(document.detail || document.title || String(status));
    this.status = status;
    /** @type {string} */
    this.code = document.code || "";
    /** @type {Record<string, any>} */
    this.details = document.details || {};
  }
}

/** No answer came: the host is not reached. */
export class Unreachable extends Error {}

/** Whether the same may work a little later: the host is away, busy, or had a failure of its own. @param {unknown} error */
export const isPassing = (error) =>
  error instanceof Unreachable || (error instanceof Problem && (error.status === 408 || error.status === 429 || error.status >= 500));

/** An exception of who takes the events of a stream, which no new connection mends. */
class Untaken extends Error {}

/** What writes of the session send along; set by lib/session.js. */
export const credentials = {
  csrf: "",
  /** Called when the session is over. */
  over: () => {},
};

const TRIES = 4;
/** A read that gets no answer is done again: a network may swallow it without a word. */
const ANSWER_MS = 45_000;
const FIRST_WAIT_MS = 250;
const LAST_WAIT_MS = 8000;
/** A stream that is silent for so long is broken: the host sends a comment every 15 seconds. */
const SILENT_MS = 40_000;

/** An id that nobody else has. `crypto.randomUUID` is not there on pages without TLS. */
export const newId = () =>
  [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");

/** @param {number} ms @param {AbortSignal} [signal] */
export const sleep = (ms, signal) =>
  new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", end);
      resolve(undefined);
    };
    const timer = setTimeout(end, signal?.aborted ? 0 : ms);
    signal?.addEventListener("abort", end);
  });

/**
 * Quoted segments of a path: `path("runs", id, "journal")`.
 * @param {...string} parts
 */
export const path = (...parts) => "/v1/" + parts.map(encodeURIComponent).join("/");

/**
 * A URL with a query; undefined, null and "" are left out, and lists repeat their name.
 * @param {string} to @param {Record<string, any>} [query]
 */
export function withQuery(to, query = {}) {
  const found = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== undefined && one !== null && one !== "") found.append(name, String(one));
    }
  }
  const text = found.toString();
  return text ? `${to}?${text}` : to;
}

/**
 * @typedef {{query?: Record<string, any>, body?: any, signal?: AbortSignal, headers?: Record<string, string>,
 *   raw?: boolean, quiet?: boolean}} Options
 * `raw`: `body` is sent as it is, and the Response returned. `quiet`: a 401 does not end the session.
 */

/**
 * Send a request; return the JSON of the answer, or null without one. Throws Problem or Unreachable.
 *
 * One that gets no answer is sent again. A POST has an Idempotency-Key, so that it takes effect once; what is not there
 * when it is deleted again, is deleted; and a PUT that names the version it replaces is sent once, since the answer to a
 * second one would say that somebody else was faster.
 * @param {string} method @param {string} to @param {Options} [options]
 * @returns {Promise<any>}
 */
export async function request(method, to, options = {}) {
  const { query, body, signal, headers = {}, raw = false, quiet = false } = options;
  /** @type {Record<string, string>} */
  const sent = { accept: "application/json", ...headers };
  if (method !== "GET") sent["x-csrf-token"] = credentials.csrf;
  if (body !== undefined && !raw) sent["content-type"] = "application/json";
  if (method === "POST" && !to.startsWith("/v1/events")) sent["idempotency-key"] ??= newId();
  const patience = method === "GET" && !raw && !query?.wait;
  const once = method === "PUT" && new URLSearchParams(withQuery(to, query).split("?")[1]).has("version");
  let sendings = 0;
  const answer = await again(() => {
    sendings++;
    return fetch(withQuery(to, query), {
      method,
      headers: sent,
      body: body === undefined || raw ? body : JSON.stringify(body),
      signal: patience ? AbortSignal.any([AbortSignal.timeout(ANSWER_MS), ...(signal ? [signal] : [])]) : signal,
      credentials: "same-origin",
      cache: "no-store",
    });
  }, once ? 1 : TRIES, signal);
  if (method === "DELETE" && answer.status === 404 && sendings > 1) return null;
  if (!answer.ok) {
    const problem = new Problem(answer.status, await document_(answer));
    if (answer.status === 401 && !quiet) credentials.over();
    throw problem;
  }
  if (raw) return answer;
  return answer.status === 204 ? null : answer.json();
}

/** @param {() => Promise<Response>} send @param {number} most @param {AbortSignal} [signal] */
async function again(send, most, signal) {
  for (let tries = 1, wait = FIRST_WAIT_MS; ; tries++, wait *= 2) {
    try {
      return await send();
    } catch (error) {
      if (signal?.aborted) throw error;
      if (tries >= most) throw new Unreachable(String(error));
    }
    await sleep(wait, signal);
  }
}

/** @param {Response} answer */
async function document_(answer) {
  try {
    return await answer.json();
  } catch {
    return { title: answer.statusText };
  }
}

/** @param {string} to @param {Record<string, any>} [query] @param {AbortSignal} [signal] */
export const get = (to, query, signal) => request("GET", to, { query, signal });
/** @param {string} to @param {any} [body] @param {Options} [options] */
export const post = (to, body, options) => request("POST", to, { body, ...options });
/** @param {string} to @param {any} body */
export const put = (to, body) => request("PUT", to, { body });
/** @param {string} to */
export const remove = (to) => request("DELETE", to);

/**
 * @typedef {{id: string, event: string, data: any}} StreamEvent
 * @typedef {{query?: Record<string, any>, after?: string | (() => string), signal: AbortSignal,
 *   on: (event: StreamEvent) => void | boolean, state?: (connected: boolean) => void,
 *   reached?: (cursor: string) => void}} Following
 * `on` returns true where the stream has come to its end. `state` is told when the stream is cut off and back,
 * `reached` how far it has come.
 */

/**
 * Follow an event stream until it ends or `signal` is aborted. One that breaks off is resumed after the last
 * event, however long that takes. Throws Problem where the host refuses, and what `on` throws.
 * @param {string} to @param {Following} following
 */
export async function follow(to, { query, after = "", signal, on, state = () => {}, reached = () => {} }) {
  let last = typeof after === "function" ? after() : after;
  for (let wait = FIRST_WAIT_MS; !signal.aborted; wait = Math.min(wait * 2, LAST_WAIT_MS)) {
    const silence = new Silence(signal);
    try {
      /** @type {Record<string, string>} */
      const headers = { accept: "text/event-stream", ...(last && { "last-event-id": last }) };
      const answer = await fetch(withQuery(to, query), { headers, signal: silence.signal, cache: "no-store" });
      if (!answer.ok) {
        if (answer.status === 401) credentials.over();
        throw new Problem(answer.status, await document_(answer));
      }
      state(true);
      for await (const event of eventsOf(/** @type {ReadableStream<Uint8Array>} */ (answer.body), () => silence.broken())) {
        wait = FIRST_WAIT_MS;
        if (signal.aborted) return;
        if (event.event && taken(on, event)) return;
        if (event.id) reached((last = event.id));
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof Untaken) throw error.cause;
      if (error instanceof Problem && !isPassing(error)) throw error;
    } finally {
      silence.end();
    }
    state(false);
    await sleep(wait + Math.random() * FIRST_WAIT_MS, signal);
  }
}

/** Whether the stream has come to its end with an event. @param {Following["on"]} on @param {StreamEvent} event */
function taken(on, event) {
  try {
    return on(event) === true;
  } catch (error) {
    throw new Untaken("", { cause: error });
  }
}

/**
 * Ends a request that nothing comes from: a network may swallow a connection without a word. And one of a page that is
 * left: until a browser ends it by itself, it has one connection less for the page that comes.
 */
class Silence {
  /** @param {AbortSignal} outer */
  constructor(outer) {
    this._own = new AbortController();
    this._timer = 0;
    this.signal = AbortSignal.any([outer, this._own.signal]);
    addEventListener("pagehide", () => this._own.abort(), { signal: this.signal });
    this.broken();
  }

  /** Something came. */
  broken() {
    clearTimeout(this._timer);
    this._timer = window.setTimeout(() => this._own.abort(), SILENT_MS);
  }

  end() {
    clearTimeout(this._timer);
    this._own.abort();
  }
}

/**
 * The events of a stream. Events with an id alone have an empty `event`.
 * @param {ReadableStream<Uint8Array>} body @param {() => void} came called for each piece, comments too
 * @returns {AsyncGenerator<StreamEvent>}
 */
async function* eventsOf(body, came) {
  const decoder = /** @type {ReadableWritablePair<string, Uint8Array>} */ (/** @type {unknown} */ (new TextDecoderStream()));
  const reader = body.pipeThrough(decoder).getReader();
  const turn = new Turn();
  let left = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      came();
      const blocks = (left + value).split("\n\n");
      left = /** @type {string} */ (blocks.pop());
      for (const block of blocks) {
        if (turn.over()) await turn.next(); // a host that catches up sends thousands at once
        const event = eventOf(block);
        if (event) yield event;
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

/** @param {string} block @returns {StreamEvent | null} */
function eventOf(block) {
  let id = "", event = "", data = "";
  for (const line of block.split("\n")) {
    if (line.startsWith("id: ")) id = line.slice(4);
    else if (line.startsWith("event: ")) event = line.slice(7);
    else if (line.startsWith("data: ")) data += line.slice(6);
  }
  if (!id && !event) return null;
  return { id, event, data: data ? JSON.parse(data) : null };
}
