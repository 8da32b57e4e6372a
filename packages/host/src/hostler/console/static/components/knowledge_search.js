// A search in a knowledge base, as runs make it: passages with their scores, and where the words are in them.
import { html, useEffect, useState } from "../lib/html.js";
import { path, post } from "../lib/api.js";
import { plainName } from "../lib/format.js";
import { highlighted } from "../lib/highlight.js";
import { t } from "../lib/i18n.js";
import { address, here, setQuery } from "../lib/router.js";
import { Failure, Loading } from "./states.js";

const COUNTS = [5, 10, 20, 50];
const MOST_CHARS = 4000;

/** @param {{base: any}} props */
export function KnowledgeSearch({ base }) {
  const query = here.value.query.get("q") ?? "", count = Number(here.value.query.get("top")) || COUNTS[0];
  const [found, setFound] = useState(/** @type {any} */ (null)), [times, setTimes] = useState(0);
  useEffect(() => {
    if (!query) return setFound(null);
    const abort = new AbortController();
    setFound("loading");
    post(path("knowledge", base.kb_id, "search"), { query, top_k: COUNTS.includes(count) ? count : COUNTS[0] }, { signal: abort.signal }).then(
      (answer) => setFound({ query, items: answer.items }),
      (error) => abort.signal.aborted || setFound(error),
    );
    return () => abort.abort();
  }, [base.kb_id, query, count, times]);
  const submit = (/** @type {any} */ event) => {
    event.preventDefault();
    const given = new FormData(event.target);
    setQuery({ q: String(given.get("q")).trim(), top: given.get("top") === String(COUNTS[0]) ? null : String(given.get("top")) });
    setTimes(times + 1); // the same once more, too
  };
  return html`
    <section class="card knowledge-search">
      <h2>${t("knowledge.search")}</h2>
      <form class="line-form" role="search" onSubmit=${submit}>
        <input class="grow" type="search" name="q" required maxlength=${MOST_CHARS} dir="auto" aria-label=${t("knowledge.query")} placeholder=${t("knowledge.query_example")} defaultValue=${query} />
        <label class="field"><span>${t("knowledge.top")}</span><select name="top">${COUNTS.map((one) => html`<option key=${one} value=${one} selected=${one === count}>${one}</option>`)}</select></label>
        <button class="primary">${t("knowledge.find")}</button>
      </form>
      <div aria-live="polite">
        ${found === "loading" && html`<${Loading} />`}
        ${found instanceof Error && html`<${Failure} error=${found} />`}
        ${found?.items?.length === 0 && html`<p class="dim">${t(base.passages ? "knowledge.nothing" : "knowledge.nothing_yet")}</p>`}
        ${found?.items?.length > 0 && html`<ol class="plain-list passages" aria-label=${t("knowledge.found")}>
          ${found.items.map((/** @type {any} */ item, /** @type {number} */ at) => html`<li key=${at}><${Passage} base=${base} item=${item} query=${found.query} /></li>`)}
        </ol>`}
      </div>
    </section>
  `;
}

/** @param {{base: any, item: any, query: string}} props */
function Passage({ base, item, query }) {
  const about = item.metadata ?? {}, source = typeof about.source === "string" ? about.source : "", score = Math.max(0, Math.min(1, item.score ?? 0));
  return html`
    <div class="passage-head">
      <span class="passage-score"><span class="meter" aria-hidden="true"><span style=${{ width: `${score * 100}%` }}></span></span>
        <b aria-label=${t("knowledge.score", { score: (item.score ?? 0).toFixed(2) })}>${(item.score ?? 0).toFixed(2)}</b></span>
      <span class="grow">${source && (base.kept_by === "host" ? html`<a href=${address("knowledge", base.kb_id, source)}><bdi>${plainName(source)}</bdi></a>` : html`<bdi>${plainName(source)}</bdi>`)}
        ${about.heading && html` <span class="dim" dir="auto">${about.heading}</span>`}</span>
      ${about.passages && html`<span class="dim nowrap">${t("knowledge.passage_of", { number: about.passage, all: about.passages })}</span>`}
    </div>
    <p class="verbatim" dir="auto">${highlighted(item.content, query).map((piece, at) => (piece.found ? html`<mark key=${at}>${piece.text}</mark>` : piece.text))}</p>
  `;
}
