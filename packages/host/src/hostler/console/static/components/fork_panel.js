// Goes on from a step in a new run: with another message, another prompt, or as it was.
import { html, useEffect, useLayoutEffect, useState } from "../lib/html.js";
import { get, path, post } from "../lib/api.js";
import { t } from "../lib/i18n.js";
import { useKept } from "../lib/kept_state.js";
import { useReturnFocus } from "../lib/return_focus.js";
import { address, go, setQuery } from "../lib/router.js";
import { fieldsOfRunner } from "../lib/schema_fields.js";
import { may } from "../lib/session.js";
import { textOf } from "../lib/steps.js";
import { attempt } from "./notice.js";
import { titleOf } from "./step_title.js";
import { SchemaForm } from "./schema_form.js";

/** @typedef {import("../lib/live_journal.js").LiveJournal} LiveJournal */
/** @typedef {{text: string, config: Record<string, any>, effects: boolean}} Draft `config`: only what was changed. */

/** @param {{journal: LiveJournal, position: number | null}} props `position`: of the last entry that both runs share; 0: none. */
export function ForkPanel({ journal, position }) {
  const run = journal.run.value, steps = journal.steps.value;
  const context = useContext(journal);
  const fields = useFields(run);
  const asked = textOf(context?.input?.contents) || context?.input?.text || "";
  const [draft, setDraft] = useKept(`fork ${run.run_id}`, /** @type {Partial<Draft>} */ ({}));
  const [busy, setBusy] = useState(false);
  const box = useReturnFocus();
  useLayoutEffect(() => box.current?.querySelector("h2")?.focus(), []); // at once: later it would take the focus from whoever went on
  const change = (/** @type {Partial<Draft>} */ more) => setDraft({ ...draft, ...more });
  const step = steps.find((one) => one.first <= (position ?? 0) && (position ?? 0) <= one.position);
  const start = async () => {
    setBusy(true);
    const body = bodyOf(draft, asked, position, context);
    const made = await attempt(() => post(path("runs", run.run_id, "fork"), body));
    setBusy(false);
    if (!made) return;
    setDraft(undefined);
    go(address("runs", made.run_id));
  };
  if (!may("runs:write")) return null;
  return html`
    <section class="card" ref=${box} aria-label=${t("run.fork_edited")}>
      <div class="line-of"><h2 tabindex="-1" class="grow">${t("run.fork_edited")}</h2>
        <button class="quiet" onClick=${() => setQuery({ fork: null })}>${t("state.close")}</button></div>
      <p class="help">${t("fork.what")}</p>
      <fieldset class="plain-set"><legend>${t("fork.from")}</legend>
        <label class="choice"><input type="radio" name="from" checked=${!position} onChange=${() => setQuery({ fork: "0" })} /> ${t("fork.beginning")}</label>
        ${step && position ? html`<label class="choice"><input type="radio" name="from" checked /> ${t("fork.after", { step: `${titleOf(step)} ${step.note || step.text.slice(0, 80)}`, position })}</label>` : html`<span class="dim">${t("fork.choose")}</span>`}
      </fieldset>
      <label class="stacked"><span>${t("fork.message")}</span>
        <textarea rows="4" dir="auto" value=${draft.text ?? asked} onInput=${(/** @type {any} */ event) => change({ text: event.target.value })}></textarea></label>
      ${fields.length > 0 && context && html`
        <${Configuration} fields=${fields} config=${context.config} changed=${draft.config ?? {}} change=${(/** @type {Record<string, any>} */ config) => change({ config })} />
      `}
      ${!may("agents:write") && html`<p class="help">${t("fork.right")}</p>`}
      <label class="choice"><input type="checkbox" checked=${draft.effects ?? false} onChange=${(/** @type {any} */ event) => change({ effects: event.target.checked })} /> ${t("fork.effects")}</label>
      <p class="help">${draft.effects ? t("fork.effects_on") : t("fork.effects_off")}</p>
      <button class="primary" disabled=${busy || context === null} onClick=${start}>${t("fork.start")}</button>
    </section>
  `;
}

/**
 * The prompt first; everything else is folded away until it is wanted.
 * @param {{fields: import("../lib/schema_fields.js").Field[], config: Record<string, any>, changed: Record<string, any>,
 *   change: (config: Record<string, any>) => void}} props
 */
function Configuration({ fields, config, changed, change }) {
  const prompts = fields.filter((field) => field.kind === "prompt"), others = fields.filter((field) => field.kind !== "prompt");
  const form = (/** @type {import("../lib/schema_fields.js").Field[]} */ some, /** @type {string} */ id) => html`<${SchemaForm}
    id=${id} fields=${some} values=${{ ...config, ...changed }} change=${(/** @type {Record<string, any>} */ values) => change(changesOf(config, values))} />`;
  return html`
    ${prompts.length > 0 && form(prompts, "fork-prompt")}
    ${others.length > 0 && html`<details><summary>${t("fork.config")}</summary>${form(others, "fork-config")}</details>`}
  `;
}

/** What the agent got; null until it is there. @param {LiveJournal} journal */
function useContext(journal) {
  const first = journal.steps.value.find((step) => step.kind === "context")?.first;
  const [context, setContext] = useState(/** @type {any} */ (null));
  useEffect(() => {
    if (first) journal.entry(first).then((entry) => setContext(entry?.data ?? { config: {} }), () => setContext({ config: {} }));
  }, [first]);
  return context;
}

/** What of the runner's form can be changed for one run: no secrets. @param {any} run */
function useFields(run) {
  const [fields, setFields] = useState(/** @type {import("../lib/schema_fields.js").Field[]} */ ([]));
  useEffect(() => {
    if (!may("agents:write") || !may("plugins:read")) return;
    get(path("runners", run.runner_id)).then((runner) => {
      const items = (runner.config_schema ?? []).filter((/** @type {any} */ item) => item.type !== "secret");
      const prompts = items.filter((/** @type {any} */ item) => item.type === "prompt-editor");
      setFields(fieldsOfRunner(items.length === (runner.config_schema ?? []).length ? [...prompts, ...items.filter((/** @type {any} */ item) => !prompts.includes(item))] : prompts));
    }, () => {});
  }, [run.runner_id]);
  return fields;
}

/** @param {Record<string, any>} before @param {Record<string, any>} after */
function changesOf(before, after) {
  return Object.fromEntries(Object.entries(after).filter(([name, value]) => JSON.stringify(value) !== JSON.stringify(before?.[name])));
}

/** @param {Partial<Draft>} draft @param {string} asked @param {number | null} position @param {any} context */
function bodyOf(draft, asked, position, context) {
  /** @type {Record<string, any>} */
  const body = { effects: draft.effects ?? false };
  if (position) body.position = position;
  else body.at = 0;
  if (draft.text !== undefined && draft.text !== asked) {
    const others = (context?.input?.contents ?? []).filter((/** @type {any} */ part) => part.type !== "text");
    const attachments = context?.input?.attachments ?? [];
    body.input = others.length || attachments.length ? { text: draft.text, contents: [{ type: "text", text: draft.text }, ...others], attachments } : draft.text;
  }
  if (draft.config && Object.keys(draft.config).length) body.config = draft.config;
  return body;
}
