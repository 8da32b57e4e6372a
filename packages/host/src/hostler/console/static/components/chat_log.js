// The messages of a chat: those near the view. It stays at its end while one looks there, and where one is otherwise.
import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../lib/html.js";
import { post, path } from "../lib/api.js";
import { renamed } from "../lib/conversations.js";
import { rowsOf } from "../lib/chat_rows.js";
import { t } from "../lib/i18n.js";
import { keep } from "../lib/kept.js";
import { outbox } from "../lib/outbox.js";
import { address, arrivals, go, setQuery } from "../lib/router.js";
import { RowWindow } from "../lib/row_window.js";
import { may } from "../lib/session.js";
import { textOfContent } from "./content.js";
import { lazy } from "./lazy.js";
import { Message } from "./message.js";
import { attempt } from "./notice.js";
import { RunStrip } from "./run_strip.js";

/** @typedef {import("../lib/chat_rows.js").Row} Row */

const Decision = lazy(() => import("./decision.js").then((module) => module.Decision));
const MOST_PAGES = 40;

/** @param {{conversation: import("../lib/conversation.js").Conversation, shownRun: string | null, at: string | null, cursor: string | null}} props `at`: a message that was looked for, at `cursor` */
export function ChatLog({ conversation, shownRun, at, cursor }) {
  const frame = useRef(/** @type {HTMLElement | null} */ (null)), list = useRef(/** @type {HTMLElement | null} */ (null));
  const [below, setBelow] = useState(false), [found, setFound] = useState(/** @type {{at: string} | null} */ (null));
  const [, render] = useState({}), view = useMemo(() => new RowWindow(() => render({})), [conversation]);
  const pauses = conversation.pauses.value, receipts = conversation.receipts.value;
  const newer = conversation.newer.value, rows = useRows(conversation), of = conversation.older.value || newer ? -1 : rows.length;
  view.complete = !newer;
  const pieces = view.pieces(rows, (row) => row.kind === "growing" || Boolean(row.sent || (row.live && (!row.live.over || pauses.some((pause) => pause.run_id === row.run_id)))));
  useLayoutEffect(() => {
    view.pinned = !at;
    return frame.current && list.current ? view.open(frame.current, list.current) : undefined;
  }, [view]);
  useLayoutEffect(() => view.rendered());
  const mine = outbox.value.filter((one) => one.conversation_id === conversation.id && one.state === "sending").length;
  const toEnd = async () => {
    if (at) setQuery({ at: null, cursor: null });
    if (conversation.newer.value) await attempt(() => conversation.latest());
    view.toEnd();
    setBelow(false);
  };
  useLayoutEffect(() => {
    if (mine) toEnd();
  }, [mine]);
  useEffect(() => {
    if (!at) return setFound(null);
    if (conversation.state.value !== "ready") return;
    let left = false;
    view.pinned = false;
    find(conversation, at, cursor).then(() => left || setFound({ at }));
    return () => void (left = true);
  }, [at, arrivals.value, conversation.state.value]);
  useEffect(() => {
    const row = found && rows.find((one) => one.transcript_id === found.at);
    if (row) view.show(row.key);
  }, [found]);

  const mayFork = ["conversations:write", "conversations:read", "events:write"].every(may);
  const fork = useMemo(() => (mayFork ? (/** @type {Row} */ row) => begin(conversation, row) : undefined), [conversation, mayFork]);
  return html`
    <div class="chat-log" ref=${frame} onScroll=${() => setBelow(view.scrolled())} tabindex="0" role="region" aria-label=${t("chat.messages")}>
      ${conversation.older.value && html`<button type="button" class="older" onClick=${() => attempt(() => conversation.more())}>${t("chat.older")}</button>`}
      <ol class="chat-rows" ref=${list}>
        ${pieces.map(({ key, row, place, height }) => {
          if (!row) return html`<li key=${key} class="gap" aria-hidden="true" style=${{ height: `${height}px` }}></li>`;
          if (row.live) return html`<${ChatRun} key=${key} row=${row} place=${place + 1} of=${of} open=${shownRun === row.run_id} conversation=${conversation} pauses=${pauses} />`;
          return html`<${Message} key=${key} row=${row} place=${place + 1} of=${of} receipt=${row.event_id ? receipts.get(row.event_id) : undefined} mark=${row.transcript_id === at} fork=${fork} />`;
        })}
      </ol>
      ${newer && html`<button type="button" class="later" onClick=${() => attempt(() => conversation.later())}>${t("chat.later")}</button>`}
      ${(below || newer) && html`<button type="button" class="to-end" onClick=${toEnd}>↓ ${t("chat.to_end")}</button>`}
    </div>
  `;
}

/** The rows, the same ones until something of them changes. @param {import("../lib/conversation.js").Conversation} conversation */
function useRows(conversation) {
  const items = conversation.items.value, waiting = conversation.waiting.value, runs = conversation.runs.value, files = conversation.files.value;
  const older = conversation.older.value, newer = conversation.newer.value, leaving = outbox.value;
  return useMemo(
    () => rowsOf({ items, waiting, runs: runs.values(), files, sent: leaving.filter((one) => one.conversation_id === conversation.id), older, newer }),
    [items, waiting, runs, files, leaving, older, newer],
  );
}

/** @param {{row: Row, place: number, of: number, open: boolean, conversation: import("../lib/conversation.js").Conversation, pauses: any[]}} props */
function ChatRun({ row, place, of, open, conversation, pauses }) {
  const live = /** @type {NonNullable<typeof row.live>} */ (row.live), ofRun = (/** @type {any} */ pause) => pause.run_id === live.run.run_id;
  const waits = pauses.some(ofRun), shown = [...conversation.decided.value, ...pauses].filter(ofRun).sort((a, b) => a.segment - b.segment);
  return html`<${RunStrip} live=${live} place=${place} of=${of} files=${row.files ?? []} waits=${waits} open=${open}
    show=${() => setQuery({ run: open ? null : live.run.run_id })}>
    ${shown.map((pause) => html`<${Decision} key=${pause.id} pause=${pause} changed=${() => conversation.readPauses()} />`)}
  </${RunStrip}>`;
}

/** Begin a conversation that goes on from a message, or from before it, where it is one's own. @param {import("../lib/conversation.js").Conversation} conversation @param {Row} row */
async function begin(conversation, row) {
  const own = row.kind === "person";
  const made = await attempt(() => post(`${path("conversations", conversation.id)}/fork`, { at: row.cursor, including: !own }));
  if (!made) return;
  renamed();
  if (own) keep(`chat ${made.conversation_id}`, { text: textOfContent(row.message?.content), files: [] });
  go(address("chat", made.conversation_id));
}

/**
 * Load the messages around one; where nobody knows its cursor, earlier ones until it is there.
 * @param {import("../lib/conversation.js").Conversation} conversation @param {string} id @param {string | null} cursor
 */
async function find(conversation, id, cursor) {
  if (cursor) return void (await attempt(() => conversation.around(id, cursor)));
  for (let page = 0; page < MOST_PAGES && conversation.older.value; page++) {
    if (conversation.items.value.some((item) => item.transcript_id === id)) break;
    await conversation.more();
  }
}
