// Which agent takes this event? And of each other agent, why it does not.
import { html, useState } from "../lib/html.js";
import { EVENT_TYPES } from "../lib/agent_fields.js";
import { post } from "../lib/api.js";
import { t } from "../lib/i18n.js";
import { useKept } from "../lib/kept_state.js";
import { address } from "../lib/router.js";
import { fieldsOfSchema, unfinishedText } from "../lib/schema_fields.js";
import { Fold } from "./fold.js";
import { attempt } from "./notice.js";
import { SchemaForm } from "./schema_form.js";

const FIELDS = ["event_type", "text", "agent", "conversation_id", "bot_id", "launcher_id", "actor_id", "source", "data"];

/** `mine`: the agent that the reader looks at. @param {{mine?: string}} props */
export function EventQuestion({ mine }) {
  const [values, setValues] = useKept("event question", /** @type {any} */ ({ event_type: "message.received", text: "hello" }));
  const [answer, setAnswer] = useState(/** @type {any} */ (null));
  const [all, setAll] = useState(false);
  const change = (/** @type {any} */ next) => {
    setValues(next);
    setAnswer(null);
  };
  const fields = FIELDS.map((name) => ({
    ...fieldsOfSchema({ type: "object", properties: { [name]: { type: name === "data" ? undefined : "string" } } })[0],
    label: t(`agents.event.${name}`), help: name === "data" ? t("agents.event_data_help") : "", required: name === "event_type",
    kind: name === "data" ? "json" : name === "text" ? "text" : "line", suggest: name === "event_type" ? EVENT_TYPES : undefined,
  }));
  const ask = async (/** @type {Event} */ event) => {
    event.preventDefault();
    setAll(true);
    if (!values.event_type || unfinishedText(values.data) !== null) return;
    const { text, actor_id, data, ...rest } = values;
    const body = { ...rest, input: { text: text ?? "" }, ...(actor_id && { actor: { actor_id } }), ...(data !== undefined && { data }) };
    setAnswer((await attempt(() => post("/v1/events/explain", body))) ?? null);
  };
  return html`
    <div class="two-up">
      <form class="card" onSubmit=${ask} noValidate>
        <h2>${t("agents.which")}</h2>
        <p class="help">${t("agents.which_help")}</p>
        <${SchemaForm} fields=${fields.slice(0, 3)} values=${values} change=${change} all=${all} id="event" />
        <${Fold} title=${t("agents.event_more")} open=${FIELDS.slice(3).some((name) => values[name])}>
          <${SchemaForm} fields=${fields.slice(3)} values=${values} change=${change} all=${all} id="event" />
        </${Fold}>
        <div class="form-end"><button class="primary">${t("agents.ask")}</button></div>
      </form>
      <section class="card" aria-live="polite" aria-label=${t("agents.answer")}>
        ${answer ? html`<${Answer} answer=${answer} mine=${mine} />` : html`<p class="dim">${t("agents.no_answer")}</p>`}
      </section>
    </div>
  `;
}

/** @param {{answer: any, mine?: string}} props */
const Answer = ({ answer, mine }) => html`
  <h2 class="answer ${answer.agent ? "good" : "bad"}" dir="auto">
    ${answer.agent ? html`<a href=${address("agents", answer.agent)}>${answer.agent}</a> ${t("agents.takes_it")}` : t(`agents.outcome.${answer.outcome}`)}
  </h2>
  <ul class="plain-list">
    ${answer.agents.map((/** @type {any} */ one) => html`<li key=${one.agent} class="line ${one.agent === mine ? "mine" : ""}">
      <span class="tick ${one.takes ? "good" : "dim"}" aria-hidden="true">${one.takes ? "✓" : "✕"}</span>
      <span class="grow"><a href=${address("agents", one.agent)} dir="auto">${one.agent}</a>
        <span class="why" dir="auto">${t(`agents.why.${one.error && one.why === "filter" ? "filter_error" : one.why}`, { ...one, filter: one.filter ?? "", error: one.error ?? "", behind: one.behind ?? "", scope: scopeOf(one) })}</span></span>
      ${one.priority !== 0 && html`<span class="dim">${t("agents.field.priority")} ${one.priority}</span>`}
    </li>`)}
  </ul>
  ${!answer.agents.length && html`<p class="dim">${t("agents.none")}</p>`}
`;

/** @param {any} one */
const scopeOf = (one) => `${t(`agents.option.scope.${one.scope}`)}${one.scope_id ? ` ${one.scope_id}` : ""}`;
