// One message of a chat.
import { html, useRef, useState } from "../lib/html.js";
import { clock, moment } from "../lib/format.js";
import { SHOWN_CHARS } from "../lib/chat_rows.js";
import { t } from "../lib/i18n.js";
import { blocksOf } from "../lib/markdown_blocks.js";
import { again, forget } from "../lib/outbox.js";
import { address } from "../lib/router.js";
import { Files, filesOfContent, textOfContent } from "./content.js";
import { CopyButton } from "./copy_button.js";
import { Icon } from "./icon.js";
import { MarkdownBlocks } from "./markdown_blocks.js";

/** @typedef {import("../lib/chat_rows.js").Row} Row */

/**
 * @param {{row: Row, place: number, of: number, receipt?: import("../lib/conversation.js").Receipt, mark?: boolean, fork?: (row: Row) => void}} props
 * `place` and `of`: where it is among the rows of the conversation, from 1; -1 where their number is not known. `fork`: without it there is no way to.
 */
export function Message({ row, place, of, receipt, mark, fork }) {
  const growing = row.growing;
  const text = textOfContent(row.message?.content), own = row.kind === "person";
  const files = filesOfContent(row.message?.content, row.refs ?? []);
  const id = row.transcript_id ? `m-${row.transcript_id}` : null;
  return html`
    <li class=${`said by-${growing ? "agent growing" : row.kind} ${row.waits || row.sent ? "waits" : ""} ${mark ? "marked" : ""}`} id=${id} aria-posinset=${place} aria-setsize=${of} aria-busy=${growing ? "true" : null}>
      <span class="hidden">${t(own ? "chat.you_said" : row.kind === "note" ? "chat.note" : "chat.agent_said")}</span>
      ${own ? html`<${Plain} text=${text} />` : html`<${Body} text=${text} growing=${growing} />`}
      <${Files} files=${files} />
      <div class="below">
        ${growing ? null : row.sent ? html`<${Leaving} sent=${row.sent} />` : html`<${Receipt} row=${row} receipt=${receipt} />`}
        ${!growing && html`<span class="tools">
          <time class="dim" dateTime=${new Date(row.at * 1000).toISOString()} title=${moment(row.at)}>${clock(row.at)}</time>
          ${row.alone && row.run_id && html`<a class="quiet-link dim" href=${address("runs", row.run_id)}>${t("chat.to_run")}</a>`}
          ${text && html`<${CopyButton} text=${text} label=${t("chat.copy")} />`}
          ${fork && row.transcript_id && html`<button type="button" class="quiet" aria-label=${t(own ? "chat.edit" : "chat.fork")} title=${t(own ? "chat.edit" : "chat.fork")}
            onClick=${() => fork(row)}><${Icon} name=${own ? "edit" : "fork"} /></button>`}
        </span>`}
      </div>
    </li>
  `;
}

/**
 * The text of a message. While it is being written, only this part is rendered again as it grows.
 * @param {{text: string, growing?: import("../lib/live_run.js").Growing}} props
 */
function Body({ text, growing }) {
  const before = useRef(/** @type {import("../lib/markdown_blocks.js").Block[]} */ ([]));
  // what was written is shown until the whole of it was looked at
  before.current = (growing ? growing.blocks.value : blocksOf(text)) ?? before.current;
  const thought = growing?.reasoning.value;
  return html`
    ${thought && html`<details class="thought"><summary>${t("chat.thinking")}</summary><p class="plain dim" dir="auto">${thought}</p></details>`}
    <${MarkdownBlocks} blocks=${before.current} />
  `;
}

/** What a person has typed, as it was typed. @param {{text: string}} props */
function Plain({ text }) {
  const [whole, setWhole] = useState(false);
  const cut = !whole && text.length > SHOWN_CHARS;
  if (!text) return null;
  return html`
    <div class="plain typed" dir="auto">${cut ? text.slice(0, SHOWN_CHARS) : text}</div>
    ${cut && html`<button type="button" onClick=${() => setWhole(true)}>${t("value.more", { count: text.length - SHOWN_CHARS })}</button>`}
  `;
}

/** @param {{sent: import("../lib/outbox.js").Sent}} props */
function Leaving({ sent }) {
  const { state, error, outcome } = sent;
  if (state === "sending") return html`<span class="receipt" role="status">${t("chat.sending")}</span>`;
  if (state === "sent") return html`<span class="receipt" role="status">${t(outcome === "steered" || outcome === "queued" ? `receipt.${outcome}` : "receipt.accepted")}</span>`;
  return html`
    <span class="receipt bad" role="alert" dir="auto">${state === "rejected" ? t(`receipt.${outcome}`) : t("receipt.refused", { reason: error })}</span>
    <button type="button" onClick=${() => again(sent)}>${t("state.retry")}</button>
    <button type="button" onClick=${() => forget(sent.event_id)}>${t("chat.discard")}</button>
  `;
}

/** @param {{row: Row, receipt?: import("../lib/conversation.js").Receipt}} props */
function Receipt({ row, receipt }) {
  if (receipt?.state === "read") {
    const to = `${address("runs", receipt.run_id)}${receipt.step ? `#step-${receipt.step}` : ""}`;
    return html`<a class="receipt good" href=${to}>${receipt.step ? t("receipt.read_at", { step: receipt.step }) : t("receipt.read")}</a>`;
  }
  if (receipt?.state === "dropped") return html`<span class="receipt bad">${t("receipt.dropped")}</span>`;
  if (row.waits === "pull") return html`<span class="receipt">${t("receipt.steered")}</span>`;
  if (row.waits === "run") return html`<span class="receipt">${t(receipt?.state === "requeued" ? "receipt.requeued" : "receipt.queued")}</span>`;
  return null;
}
