// A conversation with an agent beside its form, new each time the reader wants one.
import { html, useEffect, useRef, useState } from "../lib/html.js";
import { follow, get, newId, path, post } from "../lib/api.js";
import { t } from "../lib/i18n.js";
import { address } from "../lib/router.js";
import { textOf } from "../lib/steps.js";
import { LazyMarkdown as Markdown } from "./lazy_markdown.js";
import { reasonOf } from "./states.js";
import { Status } from "./status.js";

/**
 * @typedef {{asked: string, runId: string, text: string, status: string, failure: string, version: number | null}} Turn
 */

const STATUS_MS = 1000;
const ENDED = /** @type {Record<string, string>} */ ({ "run.completed": "completed", "run.failed": "failed", "run.cancelled": "cancelled", "run.timeout": "timeout" });

/**
 * `save`: save what was changed, false if that did not work; null where nothing is to be saved.
 * @param {{name: string, enabled: boolean, version: number, save: (() => Promise<boolean>) | null}} props
 */
export function AgentTry({ name, enabled, version, save }) {
  const [conversation, setConversation] = useState(() => `try-${newId()}`);
  const [turns, setTurns] = useState(/** @type {Turn[]} */ ([]));
  const [text, setText] = useState("");
  const [busy, setBusy] = useState(false);
  const abort = useRef(new AbortController());
  const end = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => () => abort.current.abort(), []);
  useEffect(() => end.current?.scrollIntoView?.({ block: "nearest" }), [turns]);

  const put = (/** @type {number} */ at, /** @type {Partial<Turn>} */ fields) =>
    setTurns((before) => before.map((turn, index) => (index === at ? { ...turn, ...fields } : turn)));

  const send = async (/** @type {Event} */ event) => {
    event.preventDefault();
    const asked = text.trim(), signal = abort.current.signal;
    if (!asked || busy) return;
    setBusy(true);
    if (save && !(await save())) return setBusy(false);
    const at = turns.length;
    setText("");
    setTurns([...turns, { asked, runId: "", text: "", status: "queued", failure: "", version: null }]);
    try {
      const body = { event_type: "message.received", event_id: `console-${newId()}`, agent: name, conversation_id: conversation, source: "console", input: { text: asked } };
      const accepted = await post("/v1/events", body);
      if (!accepted.run) put(at, { status: "failed", failure: t("agents.try_outcome", { outcome: accepted.outcome }) });
      else {
        put(at, { runId: accepted.run.run_id, status: accepted.run.status });
        await listen(accepted.run.run_id, signal, (fields) => put(at, fields));
      }
    } catch (error) {
      if (!signal.aborted) put(at, { status: "failed", failure: reasonOf(error) });
    }
    if (!signal.aborted) setBusy(false);
  };
  const anew = () => {
    abort.current.abort();
    abort.current = new AbortController();
    setTurns([]);
    setBusy(false);
    setConversation(`try-${newId()}`);
  };
  return html`
    <section class="card try" aria-label=${t("agents.try")}>
      <div class="try-head"><h2>${t("agents.try")}</h2><span class="dim">${t("agents.version", { version })}</span>
        ${turns.length > 0 && html`<button type="button" class="quiet" onClick=${anew}>${t("agents.try_anew")}</button>`}</div>
      <div class="try-turns" tabindex="0" role="log" aria-label=${t("agents.try")}>
        ${!turns.length && html`<p class="dim">${enabled ? t("agents.try_text") : t("agents.try_disabled")}</p>`}
        ${turns.map((turn, index) => html`<div key=${index} class="turn">
          <p class="asked" dir="auto">${turn.asked}</p>
          ${turn.text && html`<${Markdown} text=${turn.text} />`}
          ${turn.failure && html`<p class="wrong" dir="auto">${turn.failure}</p>`}
          <p class="turn-end"><${Status} status=${turn.status} />
            ${turn.status === "paused" && html`<a href="/approvals">${t("agents.try_waits")}</a>`}
            ${turn.runId && html`<a href=${address("runs", turn.runId)}>${t("agents.try_run")}</a>`}</p>
        </div>`)}
        <span ref=${end}></span>
      </div>
      <form class="try-form" onSubmit=${send}>
        <textarea rows="2" dir="auto" aria-label=${t("agents.try_message")} placeholder=${t("agents.try_message")} value=${text} disabled=${!enabled}
          onInput=${(/** @type {any} */ event) => setText(event.target.value)}
          onKeyDown=${(/** @type {any} */ event) => event.key === "Enter" && !event.shiftKey && !event.isComposing && send(event)} />
        <button class="primary" disabled=${busy || !text.trim() || !enabled}>${t(save ? "agents.try_save" : "agents.try_send")}</button>
      </form>
    </section>
  `;
}

/**
 * Follow a run to its end or its pause.
 * @param {string} runId @param {AbortSignal} signal @param {(fields: Partial<Turn>) => void} show
 */
async function listen(runId, signal, show) {
  const own = new AbortController();
  const until = AbortSignal.any([signal, own.signal]);
  // the stream has what the run says; its status is read beside it
  const look = async () => {
    const run = await get(path("runs", runId), {}, until);
    show({ status: run.status });
    if (run.status === "paused") own.abort();
  };
  const clock = setInterval(() => void look().catch(() => {}), STATUS_MS);
  let done = "", current = "";
  try {
    await follow(path("runs", runId, "stream"), {
      signal: until,
      on: ({ event, data }) => {
        if (event in ENDED) {
          show({ status: ENDED[event], failure: event === "run.completed" ? "" : data.data?.error ?? "" });
          return true;
        }
        if (event === "message.delta") current += textOf(data.data?.chunk?.content);
        else if (event === "message.completed") {
          done += (done ? "\n\n" : "") + textOf(data.data?.message?.content);
          current = "";
        } else return false;
        show({ text: current ? `${done}${done ? "\n\n" : ""}${current}` : done, status: "running" });
        return false;
      },
    });
  } finally {
    clearInterval(clock);
    own.abort();
  }
}
