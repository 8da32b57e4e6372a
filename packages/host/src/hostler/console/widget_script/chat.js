// The conversation: what the host has of it, what is being written, and what is on its way there.
const ACTIVE = new Set(["queued", "claimed", "running"]);
const PAGE = 50;
const chat = {
  /** @type {any[]} */ items: [],
  /** @type {any[]} */ files: [],
  /** @type {any[]} */ pauses: [],
  /** Runs that are not over. @type {Map<string, {status: string, text: string, attempt: number, failed: boolean}>} */
  runs: new Map(),
  /** Each message has a key of its own, so that tabs do not overwrite those of each other. @type {any[]} */
  outbox: kept.keys("message ").map((key) => kept.get(key)).filter((one) => one?.id).sort((a, b) => a.at - b.at),
  connected: true,
  loaded: false,
  /** Why there is no chat at all. */ refused: "",
  /** @type {AbortController | null} */ following: null,
  changed: () => {},
  sending: false,

  start() {
    if (this.following || !(access.begun || this.outbox.length)) return;
    const stop = (this.following = new AbortController());
    follow(stop.signal, (type, data) => this.heard(type, data), (up) => {
      this.connected = up;
      if (up) this.look();
      this.changed();
    });
    this.send();
  },
  stop() {
    this.following?.abort();
    this.following = null;
  },
  reset() {
    this.stop();
    Object.assign(this, { items: [], files: [], pauses: [], runs: new Map(), loaded: false, refused: "" });
    this.changed();
  },

  /** @param {string} type @param {any} data */
  heard(type, data) {
    const run = this.runs.get(data?.run_id);
    if (type === "run.status") {
      const failed = data.status === "failed" || data.status === "timeout";
      if (ACTIVE.has(data.status) || data.status === "paused") {
        const goesOn = run !== undefined && run.attempt === data.attempt;
        this.runs.set(data.run_id, { status: data.status, text: goesOn ? run.text : "", attempt: data.attempt, failed: false });
      } else if (failed) this.runs.set(data.run_id, { status: data.status, text: "", attempt: data.attempt, failed: true });
      else this.runs.delete(data.run_id);
      this.look();
    } else if (type === "message.delta") {
      const live = run ?? { status: "running", text: "", attempt: 0, failed: false };
      live.text += data.text;
      this.runs.set(data.run_id, live);
    } else if (type === "conversation.deleted") {
      this.keep([]);
      access.forget();
      return this.reset();
    } else {
      if (type === "message.completed" && run) this.look().then(() => { run.text = ""; this.changed(); });
      else this.look();
    }
    this.changed();
  },

  /** Read again what the host has; one reading at a time, and one more if that was asked for meanwhile. */
  reading: /** @type {Promise<void> | null} */ (null),
  again: /** @type {Promise<void> | null} */ (null),
  look() {
    if (!this.reading) return (this.reading = this.read().finally(() => (this.reading = null)));
    this.again ??= this.reading.then(() => {
      this.again = null;
      return this.look();
    });
    return this.again;
  },
  async read() {
    for (let wait = FIRST_WAIT_MS; this.following; wait = Math.min(wait * 2, LAST_WAIT_MS)) {
      try {
        const { conversation_id } = await access.get();
        const place = encodeURIComponent(conversation_id);
        const [history, files, pauses] = await Promise.all([
          call("GET", `/v1/conversations/${place}/history?limit=${PAGE}`),
          call("GET", `/v1/artifacts?conversation_id=${place}&limit=${PAGE}`),
          call("GET", `/v1/pauses?conversation_id=${place}&limit=20`),
        ]);
        if (access.now?.conversation_id !== conversation_id) continue;
        const waiting = (history.waiting ?? []).map((one) => ({ ...one, waits: true }));
        const newest = history.items.filter((one) => one.role === "user" || one.role === "assistant");
        const oldest = Math.min(...newest.map((one) => one.seq));
        this.items = [...this.items.filter((one) => !one.waits && one.seq < oldest), ...newest, ...waiting];
        this.files = files.items.filter((one) => one.run_id && one.source !== "upload");
        this.pauses = pauses.items;
        const here = new Set(this.items.map((one) => one.event_id));
        this.keep(this.outbox.filter((one) => !(one.stored && here.has(one.stored))));
        this.loaded = true;
        return this.changed();
      } catch (error) {
        if (!passes(error)) {
          this.refused = error.status === 404 || error.status === 403 ? t("over") : error.message;
          return this.changed();
        }
        this.connected = false;
        this.changed();
        await sleep(Math.max(wait, error.wait ?? 0), this.following?.signal);
      }
    }
  },

  // -- messages on their way ----------------------------------------------------------------------

  /** @param {any[]} outbox */
  keep(outbox) {
    for (const one of this.outbox) if (!outbox.some((other) => other.id === one.id)) kept.set(`message ${one.id}`, null);
    for (const one of outbox) if (!this.outbox.includes(one)) kept.set(`message ${one.id}`, one);
    this.outbox = outbox;
  },
  /** @param {string} text @param {any[]} attachments */
  say(text, attachments) {
    this.keep([...this.outbox, { id: newId(), text, attachments, at: Date.now() / 1000 }]);
    this.changed();
    this.start();
    this.send();
  },
  /** @param {any} message @param {any} changes */
  change(message, changes) {
    this.keep(this.outbox.map((one) => (one.id === message.id ? { ...one, ...changes } : one)));
    this.changed();
  },
  /** @param {any} message */
  discard(message) {
    this.keep(this.outbox.filter((one) => one.id !== message.id));
    this.changed();
  },
  /** Send what waits, in its order; the same id as often as it takes, so that it arrives once. */
  async send() {
    if (this.sending) return;
    this.sending = true;
    for (let wait = FIRST_WAIT_MS; ; ) {
      const next = this.outbox.find((one) => !one.stored && !one.why);
      if (!next) break;
      const input = { text: next.text, ...(next.attachments.length && { attachments: next.attachments }) };
      try {
        const taken = await call("POST", "/v1/events", { body: { event_type: "message.received", event_id: next.id, input } });
        this.change(next, { stored: taken.event_id });
        wait = FIRST_WAIT_MS;
        if (this.items.some((one) => one.event_id === taken.event_id)) this.discard(next);
        else this.look();
      } catch (error) {
        if (!passes(error)) this.change(next, { why: error.message });
        else {
          if (!(error instanceof Refusal)) this.connected = false;
          this.changed();
          await sleep(Math.max(wait, error.wait ?? 0));
          wait = Math.min(wait * 2, LAST_WAIT_MS);
        }
      }
    }
    this.sending = false;
  },

  // -- the rest ------------------------------------------------------------------------------------

  /** @param {File} file */
  async upload(file) {
    const query = new URLSearchParams({ name: file.name.slice(0, 200) });
    const headers = { "Content-Type": /^[\w.+-]+\/[\w.+-]+$/.test(file.type) ? file.type : "application/octet-stream", "Idempotency-Key": newId() };
    const signal = AbortSignal.timeout(300_000);
    const made = await call("POST", `/v1/artifacts?${query}`, { body: file, headers, signal });
    return { artifact_id: made.artifact_id, name: made.name, mime_type: made.mime_type, size_bytes: made.size_bytes };
  },
  /** @param {any} file */
  async download(file) {
    const content = await call("GET", `/v1/artifacts/${encodeURIComponent(file.artifact_id)}/content`, { as: "blob", signal: AbortSignal.timeout(300_000) });
    // never shown as a page: it is the agent's, and this is the site's origin
    const url = URL.createObjectURL(new Blob([content], { type: "application/octet-stream" }));
    el("a", { href: url, download: file.name || "file" }).click();
    setTimeout(() => URL.revokeObjectURL(url), 60_000);
  },
  /** @param {any} pause @param {any} action */
  async decide(pause, action) {
    try {
      await call("POST", `/v1/pauses/${encodeURIComponent(pause.id)}/actions`, { body: { revision: pause.revision, actions: [action] }, headers: { "Idempotency-Key": newId() } });
    } finally {
      await this.look();
    }
  },
  async halt() {
    for (const [id, run] of this.runs) {
      if (ACTIVE.has(run.status)) await call("POST", `/v1/runs/${encodeURIComponent(id)}/cancel`, { body: {} }).catch(() => {});
    }
  },
};
