// What a step holds: prompt as sent and answer, arguments and outcome, what changed in the state, a file; and what can be
// done from there.
import { html, useEffect, useState } from "../lib/html.js";
import { clock, money, number, size } from "../lib/format.js";
import { t } from "../lib/i18n.js";
import { get, path } from "../lib/api.js";
import { here, setQuery } from "../lib/router.js";
import { may } from "../lib/session.js";
import { partsOf, valueBefore, valueOf } from "../lib/step_parts.js";
import { pageOf } from "../lib/thing_address.js";
import { ActionFacts } from "./action_step.js";
import { copyText } from "./copy_button.js";
import { Diff } from "./diff.js";
import { Value } from "./json.js";
import { notice } from "./notice.js";
import { reasonOf } from "./states.js";
import { TERMINAL } from "./status.js";

/** @typedef {import("../lib/steps.js").Step} Step @typedef {import("../lib/steps.js").Entry} Entry */
/** @typedef {import("../lib/live_journal.js").LiveJournal} LiveJournal */

const PICTURE = /^image\/(?:png|jpeg|gif|webp|avif)$/;
const PREVIEW_BYTES = 8 * 1024 * 1024;

/** The whole entries of a step, once they are there. @param {Step} step @param {LiveJournal} journal @returns {(Entry | null)[] | Error | null} */
export function useEntries(step, journal) {
  const [found, setFound] = useState(/** @type {(Entry | null)[] | Error | null} */ (null));
  useEffect(() => {
    let gone = false;
    const before = step.before ? [journal.entry(step.before)] : [];
    Promise.all([...step.entries.map(journal.entry), ...before]).then((entries) => gone || setFound(entries), (error) => gone || setFound(error));
    return () => void (gone = true);
  }, [step.key, step.position]);
  return found;
}

/** @param {{step: Step, journal: LiveJournal, beside?: boolean}} props `beside`: on another page than the run's. */
export function StepDetails({ step, journal, beside = false }) {
  const found = useEntries(step, journal), run = journal.run.value;
  return html`
    <div class="details">
      <p class="dim line-of">
        <span>${clock(step.from)} · ${t("run.position", { position: step.first })}${step.first !== step.position ? `–${step.position}` : ""}</span>
        <${Tokens} step=${step} />
        ${!beside && html`<button class="quiet" onClick=${() => share(step)}>${t("run.share")}</button>`}
      </p>
      ${found === null && html`<p class="dim" role="status">${t("state.loading")}</p>`}
      ${found instanceof Error && html`<p class="wrong" role="alert">${reasonOf(found)}</p>`}
      ${Array.isArray(found) && html`<${Inside} step=${step} entries=${found} />`}
      ${!beside && html`<${Further} step=${step} run=${run} />`}
    </div>
  `;
}

/** @param {{step: Step, entries: (Entry | null)[]}} props */
function Inside({ step, entries }) {
  const own = entries.slice(0, step.entries.length);
  if (own.every((entry) => entry === null)) return html`<p class="dim">${t("run.removed")}</p>`;
  if (step.before) {
    const changed = own.at(-1), before = valueBefore(entries.at(-1), changed), after = valueOf(changed);
    return html`<h3>${t("part.change")}</h3><${Diff} before=${before ?? null} after=${after ?? null} labels=${[t("part.before"), t("part.after")]} />`;
  }
  return html`
    ${step.kind === "action" && html`<${ActionFacts} step=${step} />`}
    ${step.kind === "artifact" && html`<${File} artifact=${step.artifact} />`}
    ${partsOf(step, own).map(([key, value]) => html`<h3 key=${key}>${t(`part.${key}`)}</h3>${key === "prompt" ? html`<${Prompt} value=${value} />` : html`<${Value} value=${value} />`}`)}
  `;
}

/** A prompt as it was sent: message by message, and the rest. @param {{value: any}} props */
function Prompt({ value }) {
  const { messages, ...rest } = value;
  if (!Array.isArray(messages)) return html`<${Value} value=${value} />`;
  return html`
    ${messages.map((message, at) => html`<div class="prompt-message" key=${at}>
      <span class="dim">${message.role}</span>
      <${Value} value=${typeof message.content === "string" && Object.keys(message).filter((name) => message[name] !== null).length === 2 ? message.content : message} />
    </div>`)}
    <details><summary>${t("part.settings")}</summary><${Value} value=${rest} /></details>
  `;
}

/** @param {{step: Step}} props */
function Tokens({ step }) {
  const usage = step.usage;
  if (!usage && !step.cost) return null;
  const texts = usage ? [t("run.tokens_in_out", { in: number(usage.input_tokens ?? 0), out: number(usage.output_tokens ?? 0) })] : [];
  if (usage?.cached_tokens) texts.push(t("run.cached", { count: number(usage.cached_tokens) }));
  if (step.cost) texts.push(`${t("run.cost")}: ${money(step.cost)}`);
  return html`<span>${texts.join(" · ")}</span>`;
}

/** @param {{artifact: any}} props */
function File({ artifact }) {
  const id = artifact?.artifact_id;
  if (!id) return null;
  const at = path("artifacts", id, "content"), shown = PICTURE.test(artifact.mime_type ?? "") && (artifact.size_bytes ?? 0) <= PREVIEW_BYTES;
  const text = /^text\/|json$/.test(artifact.mime_type ?? "");
  return html`
    <p><a href=${at} target="_self" download=${artifact.name ?? id}><bdi>${artifact.name ?? id}</bdi></a>
      <span class="dim"> ${[artifact.mime_type, artifact.size_bytes === undefined ? "" : size(artifact.size_bytes)].filter(Boolean).join(" · ")}</span></p>
    ${shown && html`<img class="preview" src=${at} alt=${artifact.name ?? ""} loading="lazy" />`}
    ${text && html`<${TextPreview} at=${at} />`}
  `;
}

/** @param {{at: string}} props */
function TextPreview({ at }) {
  const [text, setText] = useState("");
  useEffect(() => {
    fetch(at, { headers: { range: "bytes=0-3999" } }).then((answer) => (answer.ok ? answer.text() : ""), () => "").then(setText);
  }, [at]);
  return text ? html`<${Value} value=${text} />` : null;
}

/** Links and buttons of a step. @param {{step: Step, run: any}} props */
function Further({ step, run }) {
  const links = /** @type {[string, string | null][]} */ ([
    ["run.child", pageOf("run", step.child)], ["run.the_tool", pageOf("tool", step.tool)], ["run.the_pause", pageOf("pause", step.pause)],
  ]);
  return html`
    ${step.event && html`<${Message} id=${step.event} />`}
    <p class="actions-of">
      ${links.map(([key, to]) => to && html`<a key=${key} class="button" href=${to}>${t(key)}</a>`)}
      ${TERMINAL.has(run.status) && may("runs:write") && html`
        <button onClick=${() => (setQuery({ fork: String(step.position), replay: null }), scrollTo(0, 0))}>${t("run.fork")}</button>`}
    </p>
  `;
}

/** What a person sent while the run worked. @param {{id: string}} props */
function Message({ id }) {
  const [text, setText] = useState("");
  useEffect(() => {
    if (may("events:read")) get(path("events", id)).then((event) => setText(event.input_summary ?? ""), () => {});
  }, [id]);
  return text ? html`<${Value} value=${text} />` : null;
}

/** @param {Step} step */
async function share(step) {
  const to = `${here.value.path}${location.search}#step-${step.first}`;
  history.replaceState(history.state, "", to);
  try {
    await copyText(location.origin + to);
    notice(t("run.shared"));
  } catch {
    notice(t("run.address_is_link")); // not allowed: it is in the address
  }
}
