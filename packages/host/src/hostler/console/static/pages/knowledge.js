// The knowledge bases, one of them with its documents, and one document.
import { html } from "../lib/html.js";
import { brief } from "../lib/brief.js";
import { number, size } from "../lib/format.js";
import { usePages } from "../lib/fresh.js";
import { t } from "../lib/i18n.js";
import { useShown } from "../lib/kept_state.js";
import { address, go } from "../lib/router.js";
import { may } from "../lib/session.js";
import { KnowledgeBase } from "../components/knowledge_base.js";
import { KnowledgeDocument } from "../components/knowledge_document.js";
import { KnowledgeForm } from "../components/knowledge_form.js";
import { Counts } from "../components/knowledge_states.js";
import { Listing } from "../components/listing.js";
import { Empty, NoRight } from "../components/states.js";
import { Table } from "../components/table.js";
import { Ago } from "../components/time.js";

const SECONDS = 5;
const NEW = "new knowledge base";

/** @param {{kb?: string, document?: string}} props */
export function Page({ kb, document: name }) {
  const head = html`<header class="head"><h1>${t("page.knowledge")}</h1></header>`;
  if (!may("knowledge:read")) return html`${head}<${NoRight} right="knowledge:read" />`;
  if (kb === undefined) return html`${head}<${List} />`;
  if (name === undefined) return html`${head}<${KnowledgeBase} key=${kb} id=${kb} />`;
  return html`${head}<${KnowledgeDocument} key=${`${kb}/${name}`} kb=${kb} name=${name} />`;
}

function List() {
  const list = usePages("/v1/knowledge", {}, SECONDS);
  const [making, setMaking] = useShown(NEW);
  const mayAdd = may("knowledge:write") && !list.items?.some((one) => one.kept_by === "service");
  const made = (/** @type {any} */ base) => go(address("knowledge", base.kb_id));
  const empty = html`<${Empty} title=${t("knowledge.none")} text=${t("knowledge.none_text")}>
    <pre class="commands">hostler knowledge add handbook${"\n"}hostler knowledge upload handbook ./docs --wait</pre>
  <//>`;
  return html`
    <div class="section-head"><p class="dim grow">${t("knowledge.help")}</p>
      ${mayAdd && !making && html`<button onClick=${() => setMaking(true)}>${t("knowledge.new")}</button>`}</div>
    ${making && mayAdd && html`<${KnowledgeForm} draft=${NEW} done=${made} cancel=${() => setMaking(false)} />`}
    <${Listing} list=${list} empty=${making ? null : empty}>
      <${Table} label=${t("page.knowledge")} rows=${list.items ?? []} keyOf=${(/** @type {any} */ one) => one.kb_id} columns=${columns()} />
    </${Listing}>
  `;
}

/** @returns {import("../components/table.js").Column[]} */
const columns = () => [
  { key: "kb_id", label: t("knowledge.base"), wide: true, cell: (one) => html`<span><a href=${address("knowledge", one.kb_id)}><bdi>${one.name || one.kb_id}</bdi></a> ${one.name && html`<code>${one.kb_id}</code>`}
    ${one.description && html`<br /><span class="dim clamp" dir="auto">${brief(one.description)}</span>`}</span>` },
  { key: "documents", label: t("knowledge.documents"), figures: true, cell: (one) => number(one.documents) },
  { key: "state", label: t("tools.state"), value: (one) => one.failed * 1e9 + one.waiting + one.indexing, cell: (one) => html`<${Counts} base=${one} />` },
  { key: "passages", label: t("knowledge.passages"), figures: true, cell: (one) => number(one.passages) },
  { key: "size_bytes", label: t("knowledge.size"), figures: true, cell: (one) => size(one.size_bytes) },
  { key: "changed_at", label: t("knowledge.changed"), cell: (one) => one.changed_at && html`<span class="nowrap"><${Ago} at=${one.changed_at} /></span>` },
];
