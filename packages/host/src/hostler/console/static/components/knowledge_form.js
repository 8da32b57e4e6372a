// Makes a knowledge base, or changes one.
import { html, useState } from "../lib/html.js";
import { path, post, put } from "../lib/api.js";
import { t } from "../lib/i18n.js";
import { notice } from "./notice.js";
import { reasonOf } from "./states.js";

const PASSAGE_CHARS = 1000;

/** `base`: the one that is changed. `done` gets the record. @param {{base?: any, done: (base: any) => void, cancel: () => void}} props */
export function KnowledgeForm({ base, done, cancel }) {
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
      notice(t("knowledge.stored"));
      done(made);
    } catch (error) {
      setWrong(reasonOf(error));
      setBusy(false);
    }
  };
  return html`
    <form class="card form" onSubmit=${submit} aria-label=${t(base ? "knowledge.change" : "knowledge.new")}>
      ${!base && html`<label class="field"><span>${t("knowledge.id")}</span><input name="kb_id" required maxlength="100" pattern="[A-Za-z0-9][A-Za-z0-9_\\-]*" spellcheck=${false} autocomplete="off" title=${t("knowledge.id_help")} /></label>
        <p class="help">${t("knowledge.id_help")}</p>`}
      <label class="field"><span>${t("settings.name")}</span><input name="name" maxlength="200" dir="auto" defaultValue=${base?.name ?? ""} /></label>
      <label class="field"><span>${t("knowledge.description")}</span><textarea name="description" rows="2" maxlength="2000" dir="auto" defaultValue=${base?.description ?? ""}></textarea></label>
      <label class="field"><span>${t("knowledge.passage_chars")}</span><input name="passage_chars" type="number" min="200" max="4000" required defaultValue=${base?.passage_chars ?? PASSAGE_CHARS} /></label>
      <p class="help">${t(base ? "knowledge.passage_chars_change" : "knowledge.passage_chars_help")}</p>
      ${wrong && html`<div class="failure in-place" role="alert"><p dir="auto">${wrong}</p></div>`}
      <div class="row-buttons"><button class="primary" disabled=${busy}>${t("webhooks.store")}</button><button type="button" onClick=${cancel}>${t("dialog.cancel")}</button></div>
    </form>
  `;
}
