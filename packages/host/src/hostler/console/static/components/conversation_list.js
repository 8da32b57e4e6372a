// The conversations beside a chat, and search in all of them.
import { html, useEffect, useMemo, useRef, useState } from "../lib/html.js";
import { get } from "../lib/api.js";
import { liveConversations } from "../lib/conversations.js";
import { t } from "../lib/i18n.js";
import { address, here, setQuery } from "../lib/router.js";
import { Icon } from "./icon.js";
import { Failure, Loading, reasonOf } from "./states.js";
import { Ago } from "./time.js";

const TYPED_MS = 250;
const FOUND = 30;
const MOST_WORDS = 200;

/** @param {{current: string | undefined, opened: () => void}} props */
export function ConversationList({ current, opened }) {
  const words = here.value.query.get("q") ?? "";
  return html`
    <div class="conversations">
      <div class="conversations-head">
        <a class="button primary wide" href="/chat" onClick=${opened}><${Icon} name="edit" /> ${t("chat.new")}</a>
        <input type="search" value=${words} maxlength=${MOST_WORDS} placeholder=${t("chat.search")} aria-label=${t("chat.search")}
          onInput=${(/** @type {any} */ event) => setQuery({ q: event.target.value })} />
      </div>
      ${words.trim() ? html`<${Found} words=${words.trim()} opened=${opened} />` : html`<${All} current=${current} opened=${opened} />`}
    </div>
  `;
}

/** @param {{current: string | undefined, opened: () => void}} props */
function All({ current, opened }) {
  const all = useMemo(liveConversations, []);
  useEffect(() => all.stop, [all]);
  const state = all.state.value, list = all.list.value, failure = state instanceof Error ? state : null;
  if (failure) return html`<${Failure} error=${failure} retry=${all.again} />`;
  if (state === "loading") return html`<${Loading} />`;
  if (!list.length) return html`<p class="dim pad">${t("chat.none")}</p>`;
  return html`
    <nav aria-label=${t("chat.conversations")}>
      <ul class="conversation-links">
        ${list.map((one) => html`
          <li key=${one.conversation_id}>
            <a href=${address("chat", one.conversation_id)} onClick=${opened} aria-current=${one.conversation_id === current ? "page" : null}>
              <strong dir="auto">${one.title || one.latest_content.slice(0, 120) || one.conversation_id}</strong>
              <span class="dim"><span dir="auto">${one.title ? one.latest_content.slice(0, 80) : ""}</span><${Ago} at=${one.latest_at} /></span>
            </a>
          </li>`)}
      </ul>
      ${all.more.value && html`<button type="button" class="wide" onClick=${all.next}>${t("chat.more")}</button>`}
    </nav>
  `;
}

/** @param {{words: string, opened: () => void}} props */
function Found({ words, opened }) {
  const [found, setFound] = useState(/** @type {any | Error | null} */ (null));
  const latest = useRef("");
  useEffect(() => {
    latest.current = words;
    const abort = new AbortController();
    const timer = setTimeout(() => {
      get("/v1/search", { q: words, limit: FOUND }, abort.signal).then(
        (page) => latest.current === words && setFound(page),
        (error) => abort.signal.aborted || setFound(error),
      );
    }, TYPED_MS);
    return () => (clearTimeout(timer), abort.abort());
  }, [words]);
  if (found === null) return html`<${Loading} />`;
  if (found instanceof Error) return html`<p class="wrong pad" dir="auto">${reasonOf(found)}</p>`;
  if (!found.items.length) return html`<p class="dim pad" role="status">${t("chat.nothing_found", { words: words.slice(0, 60) })}</p>`;
  return html`
    <ul class="conversation-links" aria-label=${t("chat.found")}>
      ${found.items.map((/** @type {any} */ item) => html`
        <li key=${item.transcript_id}>
          <a href=${`${address("chat", item.conversation_id)}?${new URLSearchParams({ q: words, at: item.transcript_id, cursor: item.cursor })}`} onClick=${opened}>
            <span dir="auto" class="excerpt">${excerpt(item.content, words)}</span>
            <span class="dim"><span>${t(item.role === "user" ? "chat.you" : "chat.agent")}</span><${Ago} at=${item.created_at} /></span>
          </a>
        </li>`)}
    </ul>
  `;
}

/** The text around the first of the words. @param {string} text @param {string} words */
function excerpt(text, words) {
  const first = words.split(/\s+/)[0].toLowerCase(), place = Math.max(0, text.toLowerCase().indexOf(first));
  const from = Math.max(0, place - 40), to = from + 160, hit = text.slice(place, place + first.length);
  if (hit.toLowerCase() !== first) return text.slice(0, 160);
  return [from ? "…" : "", text.slice(from, place), html`<mark>${hit}</mark>`, text.slice(place + first.length, to), to < text.length ? "…" : ""];
}
