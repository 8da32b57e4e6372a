// Chat with an agent: conversations at the left, messages, and the steps of a run at the right.
import { html, useEffect, useMemo, useRef, useState } from "../lib/html.js";
import { get, newId, path, post } from "../lib/api.js";
import { openConversation } from "../lib/conversation.js";
import { t } from "../lib/i18n.js";
import { send as leave, takeUp } from "../lib/outbox.js";
import { loadMarkdown } from "../lib/markdown_loaded.js";
import { address, go, here, setQuery } from "../lib/router.js";
import { may, session } from "../lib/session.js";
import { ChatHead } from "../components/chat_head.js";
import { ChatLog } from "../components/chat_log.js";
import { Composer } from "../components/composer.js";
import { textOfContent } from "../components/content.js";
import { ConversationList } from "../components/conversation_list.js";
import { Icon } from "../components/icon.js";
import { lazy } from "../components/lazy.js";
import { attempt } from "../components/notice.js";
import { Failure, Loading } from "../components/states.js";

const RunSteps = lazy(() => import("../components/run_steps.js").then((module) => module.RunSteps));
const ChatPrompts = lazy(() => import("../components/chat_prompts.js").then((module) => module.ChatPrompts));
/** Characters of an answer that a screen reader is told of at once. */
const MOST_TOLD = 1000;
const LAST_AGENT = "hostler-chat-agent";

/** @param {{conversation_id?: string}} props */
export function Page({ conversation_id }) {
  const [listed, setListed] = useState(false);
  const agents = useAgents();
  useEffect(takeUp, [session.value?.subject, session.value?.workspace_id]);
  const mayRead = may("conversations:read") && may("runs:read");
  const run = conversation_id ? here.value.query.get("run") : null;
  const toggle = may("conversations:read") && html`<button type="button" class="quiet list-toggle" aria-expanded=${listed} aria-label=${t("chat.conversations")}
    title=${t("chat.conversations")} onClick=${() => setListed(!listed)}><${Icon} name="menu" /></button>`;
  if (!mayRead && !may("events:write")) return html`<${Failure} title=${t("page.chat")} text=${t("chat.no_rights")} />`;
  return html`
    <div class=${`chat ${listed ? "listed" : ""} ${run ? "with-steps" : ""}`}>
      ${may("conversations:read") && html`<${ConversationList} current=${conversation_id} opened=${() => setListed(false)} />`}
      ${conversation_id
        ? mayRead ? html`<${Open} key=${conversation_id} id=${conversation_id} agents=${agents} toggle=${toggle} run=${run} />`
          : html`<section class="chat-main"><${Failure} title=${t("page.chat")} text=${t("chat.no_rights")} /></section>`
        : html`<${New} agents=${agents} toggle=${toggle} />`}
      ${run && html`<${RunSteps} key=${run} run_id=${run} close=${() => setQuery({ run: null })} />`}
    </div>
  `;
}

/**
 * The agents that the key may talk to: undefined until they are known, null where the key may not list them.
 * @returns {string[] | null | undefined}
 */
function useAgents() {
  const [names, setNames] = useState(/** @type {string[] | null | undefined} */ (undefined));
  useEffect(() => {
    if (!may("events:write")) return setNames([]);
    if (!may("models:read")) return setNames(null);
    get("/v1/models").then((page) => setNames(page.data.map((/** @type {{id: string}} */ one) => one.id)), () => setNames(null));
  }, []);
  return names;
}

/** @param {string[] | null | undefined} agents @param {string} [own] of the conversation */
function useAgent(agents, own = "") {
  const [chosen, setChosen] = useState("");
  const kept = localStorage.getItem(LAST_AGENT) ?? "";
  const choose = (/** @type {string} */ name) => {
    localStorage.setItem(LAST_AGENT, name);
    setChosen(name);
  };
  const asked = here.value.query.get("agent") ?? ""; // by a link
  const fitting = [chosen, asked, own, kept].find((name) => name && (!agents || agents.includes(name)));
  return { agent: fitting ?? agents?.[0] ?? "", choose };
}

/**
 * The messages that an agent of the list offers.
 * @param {string[] | null | undefined} agents @param {string} agent
 * @returns {import("../lib/prompts.js").Prompt[]}
 */
function usePrompts(agents, agent) {
  const [found, setFound] = useState(/** @type {{agent: string, prompts: any[]}} */ ({ agent: "", prompts: [] }));
  const listed = Boolean(agents?.includes(agent));
  useEffect(() => {
    if (!listed) return;
    let gone = false;
    get(path("agents", agent, "prompts")).then((page) => gone || setFound({ agent, prompts: page.items }), () => {}); // one can write without them
    return () => void (gone = true);
  }, [agent, listed]);
  return found.agent === agent ? found.prompts : [];
}

/** @param {{agents: string[] | null | undefined, toggle: any}} props */
function New({ agents, toggle }) {
  const { agent, choose } = useAgent(agents);
  const prompts = usePrompts(agents, agent);
  const [picked, setPicked] = useState(/** @type {{text: string} | null} */ (null));
  const id = useMemo(newId, []);
  const begin = (/** @type {string} */ text, /** @type {any[]} */ attachments) => {
    leave({ conversation_id: id, agent, text, attachments });
    go(address("chat", id), { replace: false });
  };
  return html`
    <section class="chat-main new">
      <header class="chat-head">${toggle}<h1>${t("chat.new")}</h1></header>
      <div class="chat-empty">
        ${agents === undefined ? html`<${Loading} />` : !may("events:write") ? html`<p>${t("chat.read_only")}</p>`
          : agents?.length === 0 ? html`<h2>${t("chat.no_agents")}</h2><p>${t("chat.no_agents_text")}</p>${may("agents:read") ? html`<a class="button primary" href="/agents">${t("first.title")}</a>` : html`<pre class="commands">hostler new runner my-agent${"\n"}hostler dev my-agent</pre>`}`
          : html`<h2>${t("chat.hello", { agent: agent.slice(0, 60) || "…" })}</h2><p class="dim">${t("chat.hello_text")}</p>
            ${prompts.length > 0 && html`<${ChatPrompts} key=${agent} prompts=${prompts} pick=${(/** @type {string} */ text) => setPicked({ text })} />`}`}
      </div>
      ${may("events:write") && html`<${Composer} place="new" conversation_id=${id} agents=${agents === undefined ? [] : agents} agent=${agent} choose=${choose} send=${begin} works=${false} stop=${null} picked=${picked} />`}
    </section>
  `;
}

/** @param {{id: string, agents: string[] | null | undefined, toggle: any, run: string | null}} props */
function Open({ id, agents, toggle, run }) {
  const conversation = useMemo(() => openConversation(id), [id]);
  useEffect(() => void loadMarkdown(), []); // while the messages are being read
  useEffect(() => () => conversation.stop(), [conversation]);
  const runs = [...conversation.runs.value.values()];
  const active = runs.filter((live) => !live.over), answered = useAnswered(conversation.runs.value);
  const { agent, choose } = useAgent(agents, runs.at(-1)?.run.agent);
  const failure = conversation.failure.value;
  const stop = !may("runs:write") ? null : () => attempt(() => Promise.all(active.map(({ run }) => post(path("runs", run.run_id, "cancel"), {}))), t("run.cancelling"));
  if (failure) return html`<section class="chat-main"><header class="chat-head">${toggle}</header><${Failure} error=${failure} retry=${() => location.reload()} /></section>`;
  if (conversation.deleted.value) return html`<section class="chat-main"><header class="chat-head">${toggle}</header><${Failure} title=${t("chat.deleted")} text=${t("chat.deleted_text")} /></section>`;
  return html`
    <section class="chat-main">
      <${ChatHead} conversation=${conversation} toggle=${toggle} />
      ${conversation.state.value === "loading" && html`<${Loading} />`}
      <${ChatLog} conversation=${conversation} shownRun=${run} at=${here.value.query.get("at")} cursor=${here.value.query.get("cursor")} />
      <p class="hidden" role="status">${said(active.length, conversation.pauses.value.length, answered)}</p>
      ${may("events:write")
        ? html`<${Composer} place=${id} conversation_id=${id} agents=${agents === undefined ? [] : agents} agent=${agent} choose=${choose} works=${active.length > 0} stop=${stop}
            send=${(/** @type {string} */ text, /** @type {any[]} */ attachments) => leave({ conversation_id: id, agent, text, attachments })} />`
        : html`<p class="dim pad">${t("chat.read_only")}</p>`}
    </section>
  `;
}

/** What a screen reader is told of the state. @param {number} active @param {number} waits @param {string} answered */
const said = (active, waits, answered) => (waits ? t("chat.waits_for_you") : active ? t("chat.works") : answered && `${t("chat.agent_said")} ${answered}`);

/** What the run that was the last to end here has said last: whole, and not while it is being written. @param {Map<string, import("../lib/live_run.js").LiveRun>} runs */
function useAnswered(runs) {
  const working = useRef(/** @type {Set<string>} */ (new Set())), [answered, setAnswered] = useState("");
  useEffect(() => {
    for (const [id, live] of runs) {
      const answer = textOfContent(live.said.at(-1)?.message.content);
      if (!live.over) working.current.add(id);
      else if ((answer || live.run.status !== "completed") && working.current.delete(id)) setAnswered(answer.length > MOST_TOLD ? `${answer.slice(0, MOST_TOLD)}…` : answer);
    }
  }, [runs]);
  return answered;
}
