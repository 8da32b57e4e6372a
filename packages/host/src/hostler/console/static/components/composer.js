// Where a message is written: text, files, and to whom.
import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { keep, kept } from "../lib/kept.js";
import { may, owner } from "../lib/session.js";
import { uploads } from "../lib/uploads.js";
import { FileButton, FileList, FileTarget } from "./file_input.js";
import { Icon } from "./icon.js";

/** Keep what is not sent yet. @param {string} place @param {string} text @param {any[]} files those of the list, see `uploads` */
const draft = (place, text, files) => keep(`chat ${place}`, text || files.length ? { text, files } : undefined);

/** Files by person and place, also where one has gone elsewhere while they are on their way. @type {Map<string, ReturnType<typeof uploads>>} */
const lists = new Map();
const listed = (/** @type {string} */ place) => `${owner()} ${place}`;

/** @param {string} place @param {() => string} conversation_id */
function filesOf(place, conversation_id) {
  const before = lists.get(listed(place));
  if (before?.busy()) return before;
  const name = `chat ${place}`;
  const made = uploads({ query: () => ({ conversation_id: conversation_id() }), changed: () => draft(place, kept(name)?.text ?? "", made.kept()) });
  made.restore(kept(name)?.files ?? []);
  lists.set(listed(place), made);
  return made;
}

/**
 * @param {{place: string, conversation_id: string, agents: string[] | null, agent: string, choose: (agent: string) => void,
 *   send: (text: string, files: any[]) => void, works: boolean, stop: (() => void) | null, picked?: {text: string} | null, children?: any}} props
 * `agents`: null where the key may not list them: their name is typed. `place`: under which the draft is kept. `works`: a run works, which takes the message. `stop`: null where the key may not.
 * `picked`: a text in place of the one that was picked before, below what was written.
 */
export function Composer({ place, conversation_id, agents, agent, choose, send, works, stop, picked = null, children }) {
  const field = useRef(/** @type {HTMLTextAreaElement | null} */ (null));
  const [text, setText] = useState(""), latest = useRef("");
  latest.current = text;
  const conversation = useRef(conversation_id);
  conversation.current = conversation_id;
  const files = useMemo(() => filesOf(place, () => conversation.current), [place]);
  const mayAttach = may("artifacts:write");

  useEffect(() => {
    setText(kept(`chat ${place}`)?.text ?? "");
    if (!matchMedia("(pointer: coarse)").matches) field.current?.focus();
    return () => void (files.busy() || lists.delete(listed(place)));
  }, [place]);
  useLayoutEffect(() => {
    const area = field.current;
    if (!area) return;
    area.style.height = "auto";
    area.style.height = `${Math.min(area.scrollHeight + 2, innerHeight * 0.4)}px`;
  }, [text]);

  /** @param {string} value */
  const type = (value) => {
    setText(value);
    draft(place, value, files.kept());
  };
  const lastPick = useRef({ own: "", whole: "" });
  useEffect(() => {
    if (!picked) return;
    const own = latest.current === lastPick.current.whole ? lastPick.current.own : latest.current.trimEnd();
    const whole = own ? `${own}\n\n${picked.text}` : picked.text;
    lastPick.current = { own, whole };
    type(whole);
    field.current?.focus();
  }, [picked]);
  const list = files.list.value, unfinished = list.some((one) => !one.artifact);
  const ready = (text.trim() || list.length > 0) && !unfinished && agent;
  const submit = () => {
    if (!ready) return;
    const stored = files.stored();
    type("");
    files.clear();
    draft(place, "", []);
    send(text.trim(), stored);
    field.current?.focus();
  };
  const pressed = (/** @type {KeyboardEvent} */ event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || matchMedia("(pointer: coarse)").matches) return;
    event.preventDefault();
    submit();
  };
  return html`
    <${FileTarget} uploads=${mayAttach ? files : null} class="composer">
      <form onSubmit=${(/** @type {Event} */ event) => (event.preventDefault(), submit())}>
        ${children}
        <${FileList} uploads=${files} />
        <textarea ref=${field} rows="1" dir="auto" value=${text} aria-label=${t("chat.message")} placeholder=${t(works ? "chat.steer" : "chat.write")}
          onInput=${(/** @type {any} */ event) => type(event.target.value)} onKeyDown=${pressed}></textarea>
        <div class="composer-line">
          ${mayAttach && html`<${FileButton} uploads=${files} />`}
          <label class="field"><span class="hidden">${t("chat.to")}</span>
            ${agents === null ? html`<input value=${agent} placeholder=${t("chat.agent_name")} spellcheck=${false} onInput=${(/** @type {any} */ event) => choose(event.target.value.trim())} />` : html`
            <select value=${agent} disabled=${!agents.length} onChange=${(/** @type {any} */ event) => choose(event.target.value)}>
              ${!agents.includes(agent) && html`<option value=${agent}>${agent || t("chat.no_agent")}</option>`}
              ${agents.map((name) => html`<option key=${name} value=${name} selected=${name === agent}>${name.slice(0, 80)}</option>`)}
            </select>`}
          </label>
          <span class="grow"></span>
          ${works && stop && html`<button type="button" class="danger" onClick=${stop}><${Icon} name="stop" /> ${t("chat.stop")}</button>`}
          <button class="primary" disabled=${!ready} aria-label=${t("chat.send")} title=${t(unfinished ? "chat.unfinished" : "chat.send")}><${Icon} name="send" /></button>
        </div>
      </form>
    </${FileTarget}>
  `;
}
