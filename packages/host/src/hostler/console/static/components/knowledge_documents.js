// The documents of a knowledge base: uploaded by button or drop, replaced, indexed again, deleted; and how far each has come.
import { html, useEffect, useMemo, useRef } from "../lib/html.js";
import { path, post, remove } from "../lib/api.js";
import { number, plainName, size } from "../lib/format.js";
import { usePages } from "../lib/fresh.js";
import { t } from "../lib/i18n.js";
import { address, here, setQuery } from "../lib/router.js";
import { may } from "../lib/session.js";
import { uploads } from "../lib/uploads.js";
import { ConfirmButton } from "./confirm.js";
import { FileList, FileTarget } from "./file_input.js";
import { DocumentState, STATES, isUnderWay } from "./knowledge_states.js";
import { Listing } from "./listing.js";
import { attempt, notice } from "./notice.js";
import { Empty } from "./states.js";
import { Table } from "./table.js";
import { Ago } from "./time.js";

const SECONDS = 5;
/** While something is indexed, it is read again this often. */
const BUSY_MS = 1000;
const MOST_FILES = 500;
const MOST_BYTES = 16 * 1024 ** 2;
const TYPES = ".txt,.md,.markdown,.html,.htm,.csv,.tsv,.json,.jsonl,.ndjson,.rst,.log,.yaml,.yml,.toml,.xml,text/*";

/** @param {{base: any, changed: () => void}} props `changed`: called when there are others */
export function KnowledgeDocuments({ base, changed }) {
  const state = here.value.query.get("state");
  const list = usePages(path("knowledge", base.kb_id, "documents"), state ? { state } : {}, SECONDS);
  const again = () => (changed(), list.reload());
  const files = useMemo(() => uploads({ put: (name) => path("knowledge", base.kb_id, "documents", name), most: MOST_FILES, mostBytes: MOST_BYTES }), [base.kb_id]);
  const stored = files.list.value.filter((one) => one.artifact);
  useEffect(() => {
    if (!stored.length) return;
    for (const one of stored) files.drop(one.key); // from here on the list says how far it is
    again();
  }, [stored.length]);
  useEffect(() => () => files.clear(), [files]);
  const busy = base.waiting + base.indexing > 0 || (list.items?.some(isUnderWay) ?? false);
  useEffect(() => {
    if (!busy) return;
    const timer = setInterval(() => document.hidden || again(), BUSY_MS);
    return () => clearInterval(timer);
  }, [busy, list.reload]);
  const mayChange = may("knowledge:write");
  const empty = html`<${Empty} title=${t(state ? "knowledge.no_documents_so" : "knowledge.no_documents")} text=${state || !mayChange ? "" : t("knowledge.no_documents_text")} />`;
  return html`
    <${FileTarget} uploads=${mayChange ? files : null} class="knowledge-documents">
      <div class="section-head"><h2>${t("knowledge.documents")}</h2>
        <label class="field"><span>${t("tools.state")}</span><select onChange=${(/** @type {any} */ event) => setQuery({ state: event.target.value })}>
          <option value="" selected=${!state}>${t("knowledge.any_state")}</option>
          ${STATES.map((one) => html`<option key=${one} value=${one} selected=${one === state}>${t(`document_state.${one}`)}</option>`)}</select></label>
        ${mayChange && html`<${Choose} label=${t("knowledge.upload")} primary=${true} multiple=${true} chosen=${(/** @type {File[]} */ chosen) => add(files, chosen)} />`}
      </div>
      ${mayChange && html`<p class="dim">${t("knowledge.upload_help", { most: size(MOST_BYTES) })}</p>`}
      <${FileList} uploads=${files} />
      <${Listing} list=${list} empty=${empty}>
        <${Table} label=${t("knowledge.documents")} rows=${list.items ?? []} keyOf=${(/** @type {any} */ one) => one.name} columns=${columns(base, mayChange ? { files, again } : null)} />
      </${Listing}>
    </${FileTarget}>
  `;
}

/** @param {ReturnType<typeof uploads>} files @param {File[]} chosen @param {string} [name] */
function add(files, chosen, name) {
  if (files.add(chosen, name)) notice(t("files.too_many", { most: files.most }), true);
}

/**
 * A button that opens the browser's dialog for files.
 * @param {{label: string, name?: string, primary?: boolean, multiple?: boolean, chosen: (files: File[]) => void}} props `name`: of what it is about
 */
function Choose({ label, name, primary = false, multiple = false, chosen }) {
  const field = useRef(/** @type {HTMLInputElement | null} */ (null));
  const take = () => {
    if (!field.current) return;
    const files = [...(field.current.files ?? [])];
    field.current.value = "";
    if (files.length) chosen(files);
  };
  return html`
    <button type="button" class=${primary ? "primary" : ""} aria-label=${name && `${label}: ${name}`} onClick=${() => field.current?.click()}>${label}</button>
    <input ref=${field} type="file" hidden multiple=${multiple} accept=${TYPES} onChange=${take} />
  `;
}

/** @param {any} base @param {{files: ReturnType<typeof uploads>, again: () => void} | null} change @returns {import("./table.js").Column[]} */
const columns = (base, change) => [
  { key: "name", label: t("knowledge.document"), wide: true, cell: (one) => html`<span><a href=${address("knowledge", base.kb_id, one.name)}><bdi>${plainName(one.name)}</bdi></a>
    <br /><span class="dim">${one.mime_type}</span>${one.reason && html`<br /><span class="wrong" dir="auto">${one.reason}</span>`}</span>` },
  { key: "state", label: t("tools.state"), cell: (one) => html`<${DocumentState} of=${one} />` },
  { key: "passages_done", label: t("knowledge.passages"), figures: true, cell: (one) => (one.state === "ready" ? number(one.passages_done) : null) },
  { key: "size_bytes", label: t("knowledge.size"), figures: true, cell: (one) => size(one.size_bytes) },
  { key: "changed_at", label: t("knowledge.changed"), cell: (one) => html`<span class="nowrap"><${Ago} at=${one.changed_at} /></span>` },
  ...(change ? [{ key: "do", label: "", sort: false, cell: (/** @type {any} */ one) => html`<${Actions} of=${one} files=${change.files} again=${change.again} />` }] : []),
];

/** @param {{of: any, files: ReturnType<typeof uploads>, again: () => void}} props */
function Actions({ of, files, again }) {
  const to = path("knowledge", of.kb_id, "documents", of.name), name = of.name.slice(0, 60);
  const drop = () => attempt(() => remove(to), t("knowledge.deleted")).then(again);
  return html`<span class="row-buttons">
    <${Choose} label=${t("knowledge.replace")} name=${name} chosen=${(/** @type {File[]} */ chosen) => add(files, chosen, of.name)} />
    <${ConfirmButton} label=${t("knowledge.delete")} name=${name} question=${t("knowledge.delete_sure")} act=${drop} />
    ${of.state === "failed" && html`<button type="button" aria-label=${`${t("knowledge.reindex")}: ${name}`} onClick=${() => attempt(() => post(`${to}/reindex`, {})).then(again)}>${t("knowledge.reindex")}</button>`}
  </span>`;
}
