// One document of a knowledge base: how it stands, and its text as it is.
import { html, useEffect, useState } from "../lib/html.js";
import { get, path, request } from "../lib/api.js";
import { moment, number, plainName, size } from "../lib/format.js";
import { t } from "../lib/i18n.js";
import { usePolled } from "../lib/polled.js";
import { address } from "../lib/router.js";
import { DocumentState, isUnderWay } from "./knowledge_states.js";
import { PolledStates } from "./polled_states.js";
import { Failure, Loading } from "./states.js";

/** What is shown of a long one. */
const SHOWN_BYTES = 256 * 1024;
const BUSY_MS = 1000;

/** @param {{kb: string, name: string}} props */
export function KnowledgeDocument({ kb, name }) {
  const to = path("knowledge", kb, "documents", name);
  const polled = usePolled((signal) => get(to, {}, signal), [to]), found = polled.value;
  const busy = found !== null && isUnderWay(found);
  useEffect(() => {
    if (!busy) return;
    const timer = setInterval(() => document.hidden || polled.again(), BUSY_MS);
    return () => clearInterval(timer);
  }, [busy, polled.again]);
  const metadata = Object.entries(found?.metadata ?? {});
  return html`
    <h2 class="thing"><a class="back" href=${address("knowledge", kb)} aria-label=${t("knowledge.back_to", { name: kb })}>←</a> <bdi>${plainName(name)}</bdi>
      ${found && html`<span class="actions"><a class="button" href=${`${to}/content`} download=${plainName(name).split("/").at(-1)}>${t("knowledge.download")}</a></span>`}</h2>
    <${PolledStates} of=${polled} quiet=${true} />
    ${found && html`
      ${found.reason && html`<div class="failure in-place"><p dir="auto">${found.reason}</p></div>`}
      <dl class="facts card">
        <dt>${t("tools.state")}</dt><dd><${DocumentState} of=${found} /></dd>
        <dt>${t("knowledge.base")}</dt><dd><a href=${address("knowledge", kb)}><bdi>${kb}</bdi></a></dd>
        <dt>${t("knowledge.type")}</dt><dd>${found.mime_type}</dd>
        <dt>${t("knowledge.size")}</dt><dd>${size(found.size_bytes)}</dd>
        ${found.state === "ready" && html`<dt>${t("knowledge.passages")}</dt><dd>${number(found.passages_done)}</dd>`}
        <dt>${t("knowledge.changed")}</dt><dd>${moment(found.changed_at)}</dd>
        ${found.put_by && html`<dt>${t("knowledge.put_by")}</dt><dd><bdi>${found.put_by}</bdi></dd>`}
        ${metadata.map(([key, value]) => html`<dt key=${key}><bdi>${key}</bdi></dt><dd dir="auto">${String(value)}</dd>`)}
      </dl>
      <section class="card"><h2>${t("knowledge.text")}</h2><${Content} key=${found.sha256} to=${`${to}/content`} of=${found} /></section>`}
  `;
}

/** Its beginning, as text: nothing in it is carried out. @param {{to: string, of: any}} props */
function Content({ to, of }) {
  const [found, setFound] = useState(/** @type {any} */ (null));
  const long = of.size_bytes > SHOWN_BYTES;
  useEffect(() => {
    const abort = new AbortController();
    /** @type {Record<string, string>} */
    const headers = long ? { range: `bytes=0-${SHOWN_BYTES - 1}` } : {};
    request("GET", to, { raw: true, headers: { accept: "*/*", ...headers }, signal: abort.signal }).then(
      async (answer) => setFound(new TextDecoder().decode(await answer.arrayBuffer(), { stream: true })), // the last character may be cut
    ).catch((error) => abort.signal.aborted || setFound(error));
    return () => abort.abort();
  }, []);
  if (found === null) return html`<${Loading} />`;
  if (found instanceof Error) return html`<${Failure} error=${found} />`;
  return html`${long && html`<p class="dim">${t("knowledge.cut", { shown: size(SHOWN_BYTES), all: size(of.size_bytes) })}</p>`}
    <pre class="plain document-text" dir="auto" tabindex="0" role="region" aria-label=${t("knowledge.text")}>${found}</pre>`;
}
