// The title of a conversation, and what can be done with it.
import { html, useEffect, useRef, useState } from "../lib/html.js";
import { path, put, remove } from "../lib/api.js";
import { renamed } from "../lib/conversations.js";
import { t } from "../lib/i18n.js";
import { go } from "../lib/router.js";
import { may } from "../lib/session.js";
import { Confirm } from "./confirm.js";
import { Icon } from "./icon.js";
import { attempt } from "./notice.js";

/** @param {{conversation: import("../lib/conversation.js").Conversation, toggle: any}} props */
export function ChatHead({ conversation, toggle }) {
  const [editing, setEditing] = useState(false), [asking, setAsking] = useState(false);
  const rename = useRef(/** @type {HTMLButtonElement | null} */ (null)), before = useRef(false);
  useEffect(() => {
    if (before.current && !editing) rename.current?.focus();
    before.current = editing;
  }, [editing]);
  const title = conversation.title.value, write = may("conversations:write") && conversation.state.value === "ready";
  const drop = async () => {
    if ((await attempt(() => remove(path("conversations", conversation.id)), t("chat.deleted"))) === undefined) return setAsking(false);
    go("/chat");
  };
  if (editing) return html`<header class="chat-head">${toggle}<${TitleField} conversation=${conversation} done=${() => setEditing(false)} /></header>`;
  return html`
    <header class="chat-head">
      ${toggle}
      <h1 class=${title ? "" : "dim"} title=${title ?? conversation.id}><bdi>${title || t("chat.untitled")}</bdi></h1>
      ${!conversation.connected.value && html`<span class="offline" role="status">${t("state.reconnecting")}</span>`}
      ${write && html`
        <button ref=${rename} type="button" class="quiet" aria-label=${t("chat.rename")} title=${t("chat.rename")} onClick=${() => setEditing(true)}><${Icon} name="edit" /></button>
        <button type="button" class="quiet" aria-label=${t("chat.delete")} title=${t("chat.delete")} onClick=${() => setAsking(true)}><${Icon} name="trash" /></button>`}
      ${asking && html`<${Confirm} title=${t("chat.delete")} text=${t("chat.delete_sure")} action=${t("chat.delete")} confirm=${drop} close=${() => setAsking(false)} />`}
    </header>
  `;
}

/** @param {{conversation: import("../lib/conversation.js").Conversation, done: () => void}} props */
function TitleField({ conversation, done }) {
  const field = useRef(/** @type {HTMLInputElement | null} */ (null));
  useEffect(() => field.current?.select(), []);
  const save = async (/** @type {Event} */ event) => {
    event.preventDefault();
    const found = await attempt(() => put(`${path("conversations", conversation.id)}/title`, { title: field.current?.value.trim() || null }));
    if (!found) return;
    conversation.title.value = found.title;
    renamed();
    done();
  };
  return html`
    <form class="title-form" onSubmit=${save}>
      <input ref=${field} value=${conversation.title.value ?? ""} maxlength="200" aria-label=${t("chat.title")} placeholder=${t("chat.title")}
        onKeyDown=${(/** @type {KeyboardEvent} */ event) => event.key === "Escape" && done()} />
      <button class="primary">${t("chat.save")}</button>
      <button type="button" onClick=${done}>${t("chat.cancel")}</button>
    </form>
  `;
}
