// What goes to the host and back: a visitor's token, requests with it, and the stream of the conversation.
const ANSWER_MS = 20_000;
const QUIET_MS = 40_000; // the host says something at least every 15 seconds
const FIRST_WAIT_MS = 500;
const LAST_WAIT_MS = 8_000;
const PLACE = `hostler-widget ${HOST} ${WIDGET.name}`;

/** What is kept over a reload. Without storage it lasts as long as the page. */
const kept = {
  memory: /** @type {Record<string, any>} */ ({}),
  /** @param {string} key */
  get(key) {
    try {
      return this.memory[key] ?? JSON.parse(localStorage.getItem(`${PLACE} ${key}`) ?? "null");
    } catch {
      return null;
    }
  },
  /** @param {string} key @param {any} value */
  set(key, value) {
    delete this.memory[key];
    try {
      if (value === null) localStorage.removeItem(`${PLACE} ${key}`);
      else localStorage.setItem(`${PLACE} ${key}`, JSON.stringify(value));
    } catch {
      if (value !== null) this.memory[key] = value; // forbidden or full
    }
  },
  /** The keys that begin so. @param {string} start @returns {string[]} */
  keys(start) {
    try {
      return Object.keys(localStorage).filter((key) => key.startsWith(`${PLACE} ${start}`)).map((key) => key.slice(PLACE.length + 1));
    } catch {
      return [];
    }
  },
};
/** One tab of this site after the other, where browsers can tell. @param {() => Promise<any>} work */
async function alone(work) {
  if (!navigator.locks) return work();
  let begun = false;
  const first = () => ((begun = true), work());
  try {
    return await navigator.locks.request(PLACE, { signal: AbortSignal.timeout(ANSWER_MS) }, first);
  } catch (error) {
    if (begun) throw error;
    return work(); // another tab sleeps, or locks are forbidden
  }
}

class Refusal extends Error {
  /** @param {number} status @param {any} problem @param {number} wait */
  constructor(status, problem, wait) {
    super(problem?.detail ?? String(status));
    this.status = status;
    this.details = problem?.details ?? {};
    this.wait = wait;
  }
  /** Whether the same request may work later. */
  get passes() {
    return this.status === 401 || this.status === 408 || this.status === 429 || this.status >= 500;
  }
}
/** @param {any} error */
const passes = (error) => !(error instanceof Refusal) || error.passes;
/** @param {number} ms @param {AbortSignal} [stop] */
const sleep = (ms, stop) =>
  new Promise((done) => {
    const timer = setTimeout(go, ms);
    function go() {
      clearTimeout(timer);
      removeEventListener("online", go);
      done(undefined);
    }
    addEventListener("online", go);
    stop?.addEventListener("abort", go);
  });
const newId = () => crypto.randomUUID?.() ?? [...crypto.getRandomValues(new Uint8Array(16))].map((one) => one.toString(16).padStart(2, "0")).join("");

const access = {
  now: /** @type {any} */ (null),
  asked: /** @type {Promise<any> | null} */ (null),
  /** The page's own server says who the visitor is. @type {null | (() => Promise<any>)} */
  ask: null,
  changed: () => {},
  get begun() {
    return this.ask !== null || kept.get("visitor") !== null;
  },
  async get() {
    if (this.now && this.now.expires_at * 1000 > Date.now() + 10_000) return this.now;
    this.asked ??= this.renew().finally(() => (this.asked = null));
    return this.asked;
  },
  async renew() {
    const before = this.now?.conversation_id ?? kept.get("conversation");
    if (this.ask) this.now = await this.ask();
    else {
      await alone(async () => {
        const made = await request("POST", `/v1/widgets/${WIDGET.name}/visitors`, { body: { visitor: kept.get("visitor") } });
        kept.set("visitor", made.visitor);
        this.now = made;
      });
    }
    kept.set("conversation", this.now.conversation_id);
    if (before && before !== this.now.conversation_id) this.changed();
    return this.now;
  },
  over() {
    this.now = null;
  },
  forget() {
    this.now = null;
    for (const key of ["visitor", "conversation", ...kept.keys("message ")]) kept.set(key, null);
  },
};

/** @param {string} method @param {string} path @param {any} [options] */
async function fetched(method, path, { body, headers = {}, signal } = /** @type {any} */ ({})) {
  const json = body !== undefined && !(body instanceof Blob);
  const answer = await fetch(HOST + path, {
    method, signal, credentials: "omit", cache: "no-store", referrerPolicy: "no-referrer",
    headers: { ...(json && { "Content-Type": "application/json" }), ...headers },
    body: json ? JSON.stringify(body) : body,
  });
  if (answer.ok) return answer;
  let problem = null;
  try {
    problem = await answer.json();
  } catch {
    // a proxy's page
  }
  throw new Refusal(answer.status, problem, Number(answer.headers.get("Retry-After") ?? 0) * 1000);
}

/** @param {string} method @param {string} path @param {any} [options] */
async function request(method, path, options = {}) {
  const signal = options.signal ?? AbortSignal.timeout(ANSWER_MS);
  const answer = await fetched(method, path, { ...options, signal });
  if (options.as === "blob") return answer.blob();
  return answer.status === 204 ? null : answer.json();
}

/** A request with a token; one that is over is replaced once. @param {(headers: any) => Promise<any>} send */
async function withToken(send) {
  for (let tries = 0; ; tries++) {
    const { token } = await access.get();
    try {
      return await send({ Authorization: `Bearer ${token}` });
    } catch (error) {
      if (!(error instanceof Refusal && error.status === 401)) throw error;
      if (access.now?.token === token) access.over();
      if (tries) throw error;
    }
  }
}
/** @param {string} method @param {string} path @param {any} [options] */
const call = (method, path, options = {}) => withToken((headers) => request(method, path, { ...options, headers: { ...options.headers, ...headers } }));

/** Server-sent events of a response. @param {Response} answer @param {() => void} alive */
async function* eventsOf(answer, alive) {
  const reader = /** @type {any} */ (answer.body).pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = ""; ; ) {
    const { done, value } = await reader.read();
    if (done) return;
    alive();
    const blocks = (rest + value).split("\n\n");
    rest = /** @type {string} */ (blocks.pop());
    for (const block of blocks) {
      const fields = /** @type {any} */ ({});
      for (const line of block.split("\n")) {
        const colon = line.indexOf(":");
        if (colon > 0) fields[line.slice(0, colon)] = line.slice(colon + 1).replace(/^ /, "");
      }
      yield { id: fields.id, type: fields.event, data: fields.data ? JSON.parse(fields.data) : null };
    }
  }
}

/**
 * Follow the conversation until `stop`; after a broken connection from where it was.
 * @param {AbortSignal} stop @param {(type: string, data: any) => void} show @param {(up: boolean) => void} connected
 */
async function follow(stop, show, connected) {
  let cursor = null;
  for (let wait = FIRST_WAIT_MS; !stop.aborted; ) {
    const one = new AbortController();
    const end = () => one.abort();
    let timer = setTimeout(end, QUIET_MS);
    stop.addEventListener("abort", end);
    try {
      const headers = cursor ? { "Last-Event-ID": cursor } : {};
      const answer = await withToken((more) => fetched("GET", `/v1/widgets/${WIDGET.name}/stream`, { headers: { ...headers, ...more }, signal: one.signal }));
      let first = true;
      for await (const event of eventsOf(answer, () => (clearTimeout(timer), (timer = setTimeout(end, QUIET_MS))))) {
        if (event.type === "problem") break;
        if (event.id) cursor = event.id;
        if (first) connected(true);
        first = false;
        wait = FIRST_WAIT_MS;
        if (event.type) show(event.type, event.data);
      }
    } catch (error) {
      if (error instanceof Refusal && error.status === 410) cursor = null;
      else if (!passes(error)) wait = LAST_WAIT_MS;
    } finally {
      clearTimeout(timer);
      stop.removeEventListener("abort", end);
      end();
    }
    if (stop.aborted) return;
    connected(false);
    await sleep(wait, stop);
    wait = Math.min(wait * 2, LAST_WAIT_MS);
  }
}
