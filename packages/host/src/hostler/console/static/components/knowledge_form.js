// Makes a knowledge base, or changes one.
import { html, useState } from "../lib/html.js";
import { path, post, put } from "../lib/api.js";
import { plainFields } from "../lib/form_changes.js";
import { t } from "../lib/i18n.js";
import { input, useDraft } from "../lib/kept_state.js";
import { notice } from "./notice.js";
import { reasonOf } from "./states.js";

const PASSAGE_CHARS = 1000;

/** @param {any} base */
const textsOf = (base) => ({ kb_id: "", name: base?.name ?? "", description: base?.description ?? "", passage_chars: String(base?.passage_chars ?? PASSAGE_CHARS) });

/**
 * `draft`: by which name it is kept. `base`: the one that is changed. `done` gets the record.
 * @param {{draft: string, base?: any, done: (base: any) => void, cancel: () => void}} props
 */
export function KnowledgeForm({ draft, base, done, cancel }) {
  const stored = textsOf(base), form = useDraft(draft, stored, () => plainFields(Object.keys(stored)));
  const [busy, setBusy] = useState(false), [wrong, setWrong] = useState("");
  const submit = async (/** @type {any} */ event) => {
    event.preventDefault();
    if (busy) return;
    const given = new FormData(event.target), text = (/** @type {string} */ name) => String(given.get(name) ?? "").trim();
    const body = { kb_id: base?.kb_id ?? text("kb_id"), name: text("name"), description: text("description"), passage_chars: Number(text("passage_chars")) };
    setBusy(true);
    setWrong("");
    try {
      const made = await (base ? put(path("knowledge", base.kb_id), body) : post("/v1/knowledge", body));
      form.forget();
      notice(t("knowledge.stored"));
      done(made);
    } catch (error) {
      setWrong(reasonOf(error));
      setBusy(false);
    }
  };
  return html`
    <form class="card form" onSubmit=${submit} aria-label=${t(base ? "knowledge.change" : "knowledge.new")}>
      ${!base && html`<label class="field"><span>${t("knowledge.id")}</span><input ...${input(form, "kb_id")} required maxlength="100" pattern="[A-Za-z0-9][A-Za-z0-9_\\-]*" spellcheck=${false} autocomplete="off" title=${t("knowledge.id_help")} /></label>
        <p class="help">${t("knowledge.id_help")}</p>`}
      <label class="field"><span>${t("settings.name")}</span><input ...${input(form, "name")} maxlength="200" dir="auto" /></label>
      <label class="field"><span>${t("knowledge.description")}</span><textarea ...${input(form, "description")} rows="2" maxlength="2000" dir="auto"></textarea></label>
      <label class="field"><span>${t("knowledge.passage_chars")}</span><input ...${input(form, "passage_chars")} type="number" min="200" max="4000" required /></label>
      <p class="help">${t(base ? "knowledge.passage_chars_change" : "knowledge.passage_chars_help")}</p>
      ${wrong && html`<div class="failure in-place" role="alert"><p dir="auto">${wrong}</p></div>`}
      <div class="row-buttons"><button class="primary" disabled=${busy}>${t("webhooks.store")}</button><button type="button" onClick=${() => (form.forget(), cancel())}>${t("dialog.cancel")}</button></div>
    </form>
  `;
}
