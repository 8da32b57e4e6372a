// One knowledge base: what it is, a search in it, and its documents.
import { html } from "../lib/html.js";
import { get, path, remove } from "../lib/api.js";
import { number, size } from "../lib/format.js";
import { t } from "../lib/i18n.js";
import { keep } from "../lib/kept.js";
import { useShown } from "../lib/kept_state.js";
import { usePolled } from "../lib/polled.js";
import { go } from "../lib/router.js";
import { may } from "../lib/session.js";
import { ConfirmButton } from "./confirm.js";
import { KnowledgeDocuments } from "./knowledge_documents.js";
import { KnowledgeForm } from "./knowledge_form.js";
import { KnowledgeSearch } from "./knowledge_search.js";
import { Counts } from "./knowledge_states.js";
import { attempt } from "./notice.js";
import { PolledStates } from "./polled_states.js";
import { Text } from "./text.js";

/** @param {{id: string}} props */
export function KnowledgeBase({ id }) {
  const polled = usePolled((signal) => get(path("knowledge", id), {}, signal), [id]), base = polled.value;
  const draft = `knowledge base ${id}`, [editing, setEditing] = useShown(draft);
  const own = base?.kept_by === "host", mayChange = own && may("knowledge:write");
  const drop = () => attempt(() => remove(path("knowledge", id)).then(() => (keep(draft, undefined), true)), t("knowledge.removed")).then((done) => done && go("/knowledge"));
  const changed = () => (setEditing(false), polled.again());
  return html`
    <h2 class="thing"><a class="back" href="/knowledge" aria-label=${t("knowledge.back")}>←</a> <bdi>${base?.name || id}</bdi> ${base && html`<${Counts} base=${base} />`}
      ${mayChange && html`<span class="actions">
        ${!editing && html`<button onClick=${() => setEditing(true)}>${t("knowledge.change")}</button>`}
        <${ConfirmButton} label=${t("knowledge.remove")} question=${t("knowledge.remove_sure", { count: base.documents, number: number(base.documents) })} act=${drop} />
      </span>`}</h2>
    <${PolledStates} of=${polled} quiet=${true} />
    ${editing && mayChange && html`<${KnowledgeForm} draft=${draft} base=${base} done=${changed} cancel=${() => setEditing(false)} />`}
    ${base && html`
      ${!own && html`<p class="note">${t("knowledge.of_service")}</p>`}
      ${base.description && html`<${Text} text=${base.description} />`}
      <dl class="sums">
        <div><dt>${t("knowledge.id")}</dt><dd><code>${base.kb_id}</code></dd></div>
        <div><dt>${t("knowledge.documents")}</dt><dd>${number(base.documents)}</dd></div>
        <div><dt>${t("knowledge.passages")}</dt><dd>${number(base.passages)}</dd></div>
        <div><dt>${t("knowledge.size")}</dt><dd>${size(base.size_bytes)}</dd></div>
      </dl>
      <${KnowledgeSearch} base=${base} />
      ${own && html`<${KnowledgeDocuments} base=${base} changed=${polled.again} />`}`}
  `;
}
