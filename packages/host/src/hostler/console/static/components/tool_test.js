// Call a tool once, with a form from its schema. One with effects asks first.
import { html, useMemo, useState } from "../lib/html.js";
import { path, post } from "../lib/api.js";
import { t } from "../lib/i18n.js";
import { useKept } from "../lib/kept_state.js";
import { mistakesOf } from "../lib/schema_check.js";
import { fieldsOfSchema, hasSecret, withoutSecrets } from "../lib/schema_fields.js";
import { Confirm } from "./confirm.js";
import { Effect } from "./tool_state.js";
import { attempt } from "./notice.js";
import { SchemaForm } from "./schema_form.js";
import { Trial } from "./trial.js";

/** @param {{tool: any}} props */
export function ToolTest({ tool }) {
  const fields = useMemo(() => fieldsOfSchema(tool.parameters), [tool.schema_digest]);
  const [typed, setTyped] = useKept(
    `tool test ${tool.name} ${tool.schema_digest}`, /** @type {any} */ ({ values: {}, raw: "{}", as_json: false, run: "" }),
    // what a schema says is a secret is not kept
    (next) => ({ ...next, values: withoutSecrets(fields, next.values), raw: hasSecret(tool.parameters) ? "{}" : next.raw }),
  );
  const [all, setAll] = useState(false), [asks, setAsks] = useState(false), [busy, setBusy] = useState(false);
  const change = (/** @type {any} */ changes) => setTyped({ ...typed, ...changes });
  const as_json = typed.as_json || !fields.length;
  const given = as_json ? read(typed.raw) : { value: typed.values };
  const wrong = "wrong" in given ? given.wrong : as_json ? "" : mistakesOf(fields, typed.values).size ? t("test.mistakes") : "";
  const send = async () => {
    setAsks(false);
    setBusy(true);
    const run = await attempt(() => post(path("tools", tool.name, "test"), { arguments: /** @type {any} */ (given).value }));
    setBusy(false);
    if (run) change({ run: run.run_id });
  };
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    setAll(true);
    if (wrong || busy) return;
    if (tool.effect === "pure") send();
    else setAsks(true);
  };
  const switched = () => change(as_json ? { as_json: false, ...("value" in given && { values: given.value }) } : { as_json: true, raw: JSON.stringify(typed.values, null, 2) });
  return html`
    <section class="card">
      <h2>${t("test.tool")}</h2>
      <p class="dim">${t("test.tool_help")} ${tool.approval === "required" && t("test.tool_approval")}</p>
      <form onSubmit=${submit} novalidate>
        ${as_json
          ? html`<label class="wide-field"><span>${t("test.json")}</span>
              <textarea class="code" rows="6" value=${typed.raw} spellcheck="false" aria-invalid=${wrong ? "true" : null} onInput=${(/** @type {any} */ event) => change({ raw: event.target.value })} /></label>`
          : html`<${SchemaForm} fields=${fields} values=${typed.values} change=${(/** @type {any} */ values) => change({ values })} all=${all} id="tool" />`}
        ${wrong && (all || as_json) && html`<p class="wrong" role="alert" dir="auto">${wrong}</p>`}
        <div class="buttons">
          <button class="primary" disabled=${busy}>${t("test.call")}</button>
          ${fields.length > 0 && html`<button type="button" onClick=${switched}>${t(as_json ? "test.as_form" : "test.as_json")}</button>`}
        </div>
      </form>
      ${asks && html`<${Confirm} title=${t("test.sure")} text=${t("test.sure_help", { tool: tool.name })} action=${t("test.do")} confirm=${send} close=${() => setAsks(false)} danger=${false}>
        <p><${Effect} effect=${tool.effect} /> ${t(`effect_help.${tool.effect}`)}</p>
      <//>`}
      ${typed.run && html`<${Trial} key=${typed.run} run_id=${typed.run} plain=${true} />`}
    </section>
  `;
}

/** @param {string} text @returns {{value: any} | {wrong: string}} */
function read(text) {
  try {
    const value = JSON.parse(text || "{}");
    if (value !== null && typeof value === "object" && !Array.isArray(value)) return { value };
    return { wrong: t("test.no_object") };
  } catch (error) {
    return { wrong: t("test.no_json", { why: error instanceof Error ? error.message : String(error) }) };
  }
}
