// The messages of a chat. It stays at its end while one looks there, and where one is otherwise.
import { html, useEffect, useLayoutEffect, useRef, useState } from "../lib/html.js";
import { post, path } from "../lib/api.js";
import { renamed } from "../lib/conversations.js";
import { rowsOf } from "../lib/chat_rows.js";
import { t } from "../lib/i18n.js";
import { keep } from "../lib/kept.js";
import { outbox } from "../lib/outbox.js";
import { address, go, setQuery } from "../lib/router.js";
import { may } from "../lib/session.js";
import { textOfContent } from "./content.js";
import { lazy } from "./lazy.js";
import { Message } from "./message.js";
import { attempt } from "./notice.js";
import { RunStrip } from "./run_strip.js";

const Decision = lazy(() => import("./decision.js").then((module) => module.Decision));
const NEAR_PIXELS = 60;
const MOST_PAGES = 40;

/** @param {{conversation: import("../lib/conversation.js").Conversation, shownRun: string | null, at: string | null}} props */
export function ChatLog({ conversation, shownRun, at }) {
  const frame = useRef(/** @type {HTMLElement | null} */ (null)), list = useRef(/** @type {HTMLElement | null} */ (null));
  const pinned = useRef(true);
  const [below, setBelow] = useState(false);
  const runs = conversation.runs.value, pauses = conversation.pauses.value, receipts = conversation.receipts.value;
  const rows = rowsOf({
    items: conversation.items.value, waiting: conversation.waiting.value, runs: runs.values(), files: conversation.files.value,
    sent: outbox.value.filter((one) => one.conversation_id === conversation.id), older: conversation.older.value,
  });
  const end = () => frame.current && (frame.current.scrollTop = frame.current.scrollHeight);
  const scrolled = () => {
    const element = frame.current;
    if (!element) return;
    pinned.current = element.scrollHeight - element.scrollTop - element.clientHeight < NEAR_PIXELS;
    setBelow(!pinned.current);
  };
  useLayoutEffect(() => {
    pinned.current = !at;
    const observer = new ResizeObserver(() => pinned.current && end());
    if (list.current) observer.observe(list.current);
    if (frame.current) observer.observe(frame.current);
    return () => observer.disconnect();
  }, [conversation]);
  const mine = outbox.value.filter((one) => one.conversation_id === conversation.id && one.state === "sending").length;
  useLayoutEffect(() => {
    if (mine) (pinned.current = true), end();
  }, [mine]);
  useEffect(() => {
    if (at && conversation.state.value === "ready") find(conversation, at);
  }, [at, conversation.state.value]);

  const fork = !may("conversations:write") ? undefined : async (/** @type {import("../lib/chat_rows.js").Row} */ row) => {
    const own = row.kind === "person";
    const made = await attempt(() => post(`${path("conversations", conversation.id)}/fork`, { at: row.cursor, including: !own }));
    if (!made) return;
    renamed();
    if (own) keep(`chat ${made.conversation_id}`, { text: textOfContent(row.message?.content), files: [] });
    go(address("chat", made.conversation_id));
  };
  return html`
    <div class="chat-log" ref=${frame} onScroll=${scrolled} tabindex="0" role="region" aria-label=${t("chat.messages")}>
      ${conversation.older.value && html`<button type="button" class="older" onClick=${() => attempt(() => conversation.more())}>${t("chat.older")}</button>`}
      <ol class="chat-rows" ref=${list}>
        ${rows.map((row) => {
          if (row.kind !== "run" || !row.live) {
            return html`<${Message} key=${row.key} row=${row} receipt=${row.event_id ? receipts.get(row.event_id) : undefined} mark=${row.transcript_id === at} fork=${fork} />`;
          }
          const { run } = row.live, waits = pauses.filter((pause) => pause.run_id === run.run_id), open = shownRun === run.run_id;
          return html`<${RunStrip} key=${row.key} live=${row.live} files=${row.files ?? []} waits=${waits.length > 0} open=${open}
            show=${() => setQuery({ run: open ? null : run.run_id })}>
            ${waits.map((pause) => html`<${Decision} key=${pause.id} pause=${pause} changed=${() => conversation.readPauses()} />`)}
          </${RunStrip}>`;
        })}
      </ol>
      ${below && html`<button type="button" class="to-end" onClick=${() => ((pinned.current = true), end())}>↓ ${t("chat.to_end")}</button>`}
    </div>
  `;
}

/** Load earlier messages until one is there, and show it. @param {import("../lib/conversation.js").Conversation} conversation @param {string} id */
async function find(conversation, id) {
  for (let page = 0; page < MOST_PAGES && conversation.older.value; page++) {
    if (conversation.items.value.some((item) => item.transcript_id === id)) break;
    await conversation.more();
  }
  requestAnimationFrame(() => document.getElementById(`m-${id}`)?.scrollIntoView({ block: "center" }));
}
