// What is seen: a button, and a panel with the conversation. Rows are made anew only where they changed.
const MAX_FILES = 8;
const root = el("div", { id: `hostler-widget-${WIDGET.name}` });
const shadow = root.attachShadow({ mode: "open" });
const sheet = new CSSStyleSheet();
sheet.replaceSync(SHEET);
shadow.adoptedStyleSheets = [sheet];

const title = said(WIDGET.title) || t("chat");
const dot = el("span", { className: "dot", hidden: true });
const launch = button("launch", "chat", t("open"), () => (panel.hidden ? open() : close()));
launch.setAttribute("aria-expanded", "false");
launch.append(dot);
const notice = el("div", { className: "notice", role: "status", hidden: true });
const log = el("div", { className: "log", role: "log", "aria-label": title, "aria-live": "polite", tabIndex: 0 });
const field = el("textarea", { rows: 1, "aria-label": t("write"), placeholder: t("write"), maxLength: WIDGET.chars, enterKeyHint: "send" });
const waiting = el("div", { className: "files waiting" });
const picker = el("input", { type: "file", multiple: true, hidden: true, onchange: () => attach([...picker.files]) });
const attachButton = button("plain", "attach", t("attach"), () => picker.click());
const stopButton = button("plain", "stop", t("stop"), () => chat.halt());
const form = el("form", { className: "write", onsubmit: submit }, ...(WIDGET.files ? [attachButton, picker] : []), field, stopButton, button("plain", "send", t("send"), () => form.requestSubmit()));
const freshButton = button("plain", "fresh", t("fresh"), startAnew);
const panel = el("section", { className: "panel", role: "dialog", "aria-label": title, lang: LANGUAGE, hidden: true, onkeydown: keyed },
  el("header", {}, el("h2", {}, title), freshButton, button("plain", "close", t("close"), close)), notice, log, waiting, form);
shadow.append(panel, launch);

/** @type {Map<string, {made: any, seen: string}>} */
let rows = new Map();
let attached = /** @type {any[]} */ ([]);
let trouble = "";
let seenAnswers = -1;

function open() {
  if (panel.hidden) {
    panel.hidden = false;
    launch.setAttribute("aria-expanded", "true");
    launch.setAttribute("aria-label", t("close"));
    remember(true);
    chat.start();
    draw();
    log.scrollTop = log.scrollHeight;
  }
  field.focus();
}
function close() {
  if (panel.hidden) return;
  const inside = shadow.activeElement !== null;
  panel.hidden = true;
  launch.setAttribute("aria-expanded", "false");
  launch.setAttribute("aria-label", t("open"));
  remember(false);
  if (inside) launch.focus();
}
/** @param {boolean} value */
function remember(value) {
  try {
    sessionStorage.setItem(`${PLACE} open`, String(value));
  } catch {
    // forbidden
  }
}
function startAnew() {
  chat.keep([]);
  access.forget();
  chat.reset();
  attached = [];
  trouble = "";
  if (access.ask) chat.start();
  field.focus();
}
/** @param {KeyboardEvent} event */
function keyed(event) {
  if (event.key === "Escape") close();
  event.stopPropagation(); // shortcuts of the page are not for what is typed here
}
field.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
  // not while an input method is choosing characters
  if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.keyCode === 229) return;
  event.preventDefault();
  form.requestSubmit();
});
field.addEventListener("input", () => {
  field.style.height = "auto";
  field.style.height = `${field.scrollHeight + 2}px`;
});
field.addEventListener("paste", (/** @type {ClipboardEvent} */ event) => {
  const files = [...(event.clipboardData?.files ?? [])];
  if (WIDGET.files && files.length) {
    event.preventDefault();
    attach(files);
  }
});

/** @param {Event} event */
function submit(event) {
  event.preventDefault();
  const text = field.value.trim();
  if ((!text && !attached.length) || attached.some((one) => !one.ref) || chat.refused) return;
  chat.say(text, attached.map((one) => one.ref));
  attached = [];
  trouble = "";
  field.value = "";
  field.style.height = "auto";
  draw();
  log.scrollTop = log.scrollHeight;
}

/** @param {File[]} files */
function attach(files) {
  picker.value = "";
  trouble = "";
  for (const file of files) {
    if (attached.length >= MAX_FILES) trouble = t("many", { count: MAX_FILES });
    else if (file.size > WIDGET.mib * 2 ** 20) trouble = t("large", { name: file.name, mib: WIDGET.mib });
    else {
      const one = /** @type {any} */ ({ file, ref: null });
      attached.push(one);
      chat.upload(file).then(
        (ref) => (one.ref = ref),
        (error) => {
          attached = attached.filter((other) => other !== one);
          trouble = t("upload", { name: file.name, why: error.message });
        },
      ).finally(draw);
    }
  }
  draw();
}

/** @param {any[]} files */
const chips = (files) => files.length === 0 ? null : el("div", { className: "files" }, ...files.map((file) =>
  el("button", { type: "button", className: "chip", onclick: () => chat.download(file).catch((error) => { trouble = error.message; draw(); }) }, `\u2193 ${file.name || t("file")}`)));

/** The text and the files of a message. @param {any} item */
function contentOf(item) {
  const content = item.content_json?.content ?? item.content;
  const list = Array.isArray(content) ? content : [{ type: "text", text: String(content ?? "") }];
  const files = new Map();
  for (const one of [...list, ...(item.artifact_refs ?? [])]) if (one.artifact_id) files.set(one.artifact_id, one);
  return { text: list.map((one) => (one.type === "text" ? one.text : "")).join(""), files: [...files.values()] };
}
const whoSays = (/** @type {string} */ who) => el("span", { className: "off" }, `${t(who)}: `);

/** All rows in their order: a key, what it shows, and how it is made. @returns {{key: string, at: number, seen: string, make: () => any}[]} */
function wanted() {
  const list = [], answered = new Map(), shown = new Set();
  const add = (/** @type {string} */ key, /** @type {number} */ at, /** @type {any} */ seen, /** @type {() => any} */ make) => list.push({ key, at, seen: JSON.stringify(seen), make });
  for (const item of chat.items) {
    const { text, files } = contentOf(item);
    for (const file of files) shown.add(file.artifact_id);
    const person = item.role === "user";
    if (!person) answered.set(item.run_id, true);
    const count = list.filter((one) => one.key.startsWith(`run ${item.run_id} `)).length;
    const key = person ? `event ${item.event_id ?? item.transcript_id}` : `run ${item.run_id} ${count}`;
    add(key, item.created_at, [text, files], () =>
      el("div", { className: `row ${person ? "person" : "agent"}`, dir: "auto" }, whoSays(person ? "you" : "agent"), person ? text : markdown(text), chips(files)));
  }
  for (const file of chat.files) if (!shown.has(file.artifact_id)) add(`file ${file.artifact_id}`, file.created_at, file.name, () => el("div", { className: "row agent" }, chips([file])));
  for (const pause of chat.pauses) for (const call of pause.calls) {
    add(`asked ${pause.id} ${call.call_id}`, pause.created_at, [pause.status, pause.revision, call.decision, call.may_decide, call.review], () => askedRow(pause, call));
  }
  list.sort((a, b) => a.at - b.at);
  const end = (/** @type {string} */ key, /** @type {any} */ seen, /** @type {() => any} */ make) => add(key, 0, seen, make);
  for (const one of chat.outbox) {
    end(`event ${one.stored ?? one.id}`, [one.text, one.attachments, one.why, Boolean(one.stored)], () => {
      const state = one.why
        ? el("div", { className: "state", role: "alert" }, t("refused", { why: one.why }), el("div", { className: "choices" },
          el("button", { type: "button", className: "choice", onclick: () => { chat.change(one, { why: null }); chat.send(); } }, t("again")),
          el("button", { type: "button", className: "choice", onclick: () => chat.discard(one) }, t("discard"))))
        : one.stored ? null : el("div", { className: "state" }, t("sending"));
      return el("div", { className: "row person", dir: "auto" }, whoSays("you"), one.text, chips(one.attachments), state);
    });
  }
  for (const [id, run] of chat.runs) {
    if (run.failed) end(`failed ${id}`, id, () => el("div", { className: "row note bad" }, t("failed")));
    else if (run.text) end(`growing ${id}`, run.text, () => el("div", { className: "row agent", dir: "auto", "aria-live": "off" }, whoSays("agent"), markdown(run.text)));
    else if (ACTIVE.has(run.status) && !chat.pauses.some((pause) => pause.run_id === id && pause.calls.some((/** @type {any} */ call) => isOpen(pause, call)))) end(`works ${id}`, id, () => el("div", { className: "row agent" }, el("span", { className: "off" }, t("works")), el("span", { className: "dots", "aria-hidden": "true" }, el("i"), el("i"), el("i"))));
  }
  const greeting = said(WIDGET.greeting);
  if (greeting) list.unshift({ key: "greeting", at: 0, seen: greeting, make: () => el("div", { className: "row agent" }, whoSays("agent"), markdown(greeting)) });
  return list;
}

let due = false;
function draw() {
  if (due) return;
  due = true;
  setTimeout(() => {
    due = false;
    drawNow();
  }, 16);
}
function drawNow() {
  const answers = chat.items.filter((one) => one.role === "assistant").length;
  if (chat.loaded && seenAnswers >= 0 && answers > seenAnswers && panel.hidden) dot.hidden = false;
  if (!panel.hidden) dot.hidden = true;
  if (chat.loaded) seenAnswers = answers;
  if (panel.hidden) {
    launch.setAttribute("aria-label", t(dot.hidden ? "open" : "unread"));
    return;
  }
  notice.textContent = chat.refused || trouble || (chat.connected ? "" : t("offline"));
  notice.hidden = !notice.textContent;
  field.disabled = Boolean(chat.refused);
  stopButton.hidden = ![...chat.runs.values()].some((run) => ACTIVE.has(run.status));
  freshButton.hidden = Boolean(access.ask) || !(chat.items.length || chat.outbox.length);
  waiting.replaceChildren(...attached.map((one) => el("button", { type: "button", className: "chip", "aria-label": t("drop", { name: one.file.name }), onclick: () => { attached = attached.filter((other) => other !== one); draw(); } }, `${one.ref ? "\u00d7" : "\u2026"} ${one.file.name}`)));

  const below = log.scrollHeight - log.scrollTop - log.clientHeight < 60;
  /** @type {typeof rows} */
  const next = new Map();
  let before = null;
  for (const one of wanted()) {
    if (next.has(one.key)) continue;
    const known = rows.get(one.key);
    const made = known && known.seen === one.seen ? known.made : one.make();
    next.set(one.key, { made, seen: one.seen });
    if (!made) continue;
    if (known?.made && known.made !== made && known.made.isConnected) known.made.replaceWith(made);
    const place = before ? before.nextSibling : log.firstChild;
    if (made !== place) log.insertBefore(made, place);
    before = made;
  }
  for (const [key, { made }] of rows) if (made && next.get(key)?.made !== made) made.remove();
  rows = next;
  if (below) log.scrollTop = log.scrollHeight;
}
chat.changed = draw;
/** Another conversation: what was there of the old one goes, and an open chat shows the new one. */
function moved() {
  chat.reset();
  if (!panel.hidden || chat.outbox.length) chat.start();
}
access.changed = moved;
// another tab has begun a conversation, or ended this one
addEventListener("storage", (event) => {
  if (event.key !== `${PLACE} conversation` || access.ask || (access.now && kept.get("conversation") === access.now.conversation_id)) return;
  access.now = null;
  moved();
});
