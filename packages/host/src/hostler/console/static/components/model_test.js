// Ask a model once: a question, a text to embed, or documents to order.
import { html, useState } from "../lib/html.js";
import { path, post } from "../lib/api.js";
import { t } from "../lib/i18n.js";
import { useKept } from "../lib/kept_state.js";
import { attempt } from "./notice.js";
import { Trial } from "./trial.js";

/** @param {{model: any}} props */
export function ModelTest({ model }) {
  const [typed, setTyped] = useKept(`model test ${model.model_id}`, { input: "", documents: "", run: "" });
  const [busy, setBusy] = useState(false);
  const ranks = model.model_type === "rerank";
  const change = (/** @type {any} */ changes) => setTyped({ ...typed, ...changes });
  const documents = typed.documents.split("\n").filter((/** @type {string} */ line) => line.trim());
  const ready = typed.input.trim() && (!ranks || documents.length);
  const send = async (/** @type {Event} */ event) => {
    event.preventDefault();
    if (!ready || busy) return;
    setBusy(true);
    const run = await attempt(() => post(path("models", model.model_id, "test"), { input: typed.input, documents: ranks ? documents : [] }));
    setBusy(false);
    if (run) change({ run: run.run_id });
  };
  return html`
    <section class="card">
      <h2>${t("test.model")}</h2>
      <p class="dim">${t("test.model_help")}</p>
      <form class="stack" onSubmit=${send}>
        <label class="wide-field"><span>${t(ranks ? "test.query" : model.model_type === "embedding" ? "test.text" : "test.prompt")}</span>
          <textarea rows="3" value=${typed.input} required dir="auto" onInput=${(/** @type {any} */ event) => change({ input: event.target.value })}
            onKeyDown=${(/** @type {KeyboardEvent} */ event) => event.key === "Enter" && (event.ctrlKey || event.metaKey) && send(event)} /></label>
        ${ranks && html`<label class="wide-field"><span>${t("test.documents")}</span>
          <textarea rows="5" value=${typed.documents} required dir="auto" onInput=${(/** @type {any} */ event) => change({ documents: event.target.value })} /></label>`}
        <button class="primary" disabled=${!ready || busy}>${t("test.ask")}</button>
      </form>
      ${typed.run && html`<${Trial} key=${typed.run} run_id=${typed.run} plain=${model.model_type !== "llm"} />`}
    </section>
  `;
}
