// The models of the host, and one of them with a test.
import { html } from "../lib/html.js";
import { get } from "../lib/api.js";
import { brief } from "../lib/brief.js";
import { money, number, short } from "../lib/format.js";
import { t } from "../lib/i18n.js";
import { usePolled } from "../lib/polled.js";
import { address, go, here, ownAddress } from "../lib/router.js";
import { may } from "../lib/session.js";
import { lazy } from "./lazy.js";
import { ModelTest } from "./model_test.js";
import { PolledStates } from "./polled_states.js";
import { Empty, Failure } from "./states.js";
import { Table } from "./table.js";
import { UnreadableEntries } from "./unreadable_entries.js";

const ModelEntry = lazy(() => import("./resource_entries.js").then((module) => module.ModelEntry));

/** @param {{name?: string}} props */
export const Section = ({ name }) => (name === undefined && here.value.query.has("new") && may("installation") ? html`<${New} />` : html`<${Models} name=${name} />`);

function New() {
  const next = ownAddress(here.value.query.get("next")); // where a model was missing
  return html`
    <h2 class="thing"><a class="back" href=${next ?? "/models"} aria-label=${t(next ? "models.back_to_agent" : "models.back")}>←</a> ${t("source.new.models")}</h2>
    <p class="dim">${t("models.help")}</p>
    <${ModelEntry} done=${(/** @type {string} */ id) => go(next ?? address("models", id), { replace: true })} />
  `;
}

/** @param {{name?: string}} props */
function Models({ name }) {
  const polled = usePolled((signal) => get("/v1/models", {}, signal).then((page) => page.items), []);
  const models = polled.value;
  return html`
    ${name === undefined && html`<div class="section-head"><p class="dim grow">${t("models.help")}</p>${may("installation") && html`<a class="button" href="/models?new=">${t("source.new.models")}</a>`}</div>`}
    <${PolledStates} of=${polled} quiet=${name !== undefined} />
    ${models && (name === undefined ? html`<${List} models=${models} />` : html`<${Model} key=${name} model=${models.find((/** @type {any} */ one) => one.model_id === name)} name=${name} again=${polled.again} />`)}
    ${name === undefined && html`<${UnreadableEntries} kind="models" />`}
  `;
}

/** @param {{model: any}} props */
const Health = ({ model }) => html`<span class="status ${model.problem ? "bad" : "good"}">${model.problem ? t("models.broken") : t("models.ready")}</span>`;

/** @param {{of: any}} props */
const Operations = ({ of }) => html`<span class="tags">${of.operations.map((/** @type {string} */ one) => html`<span key=${one} class="tag">${t(`operation.${one}`)}</span>`)}</span>`;

/** Of a million tokens. @param {any} price */
const priceOf = (price) => (price ? t("models.price_of", { in: money(price.input), out: money(price.output) }) : t("models.no_price"));

/** @param {{models: any[]}} props */
function List({ models }) {
  if (!models.length) {
    return html`<${Empty} title=${t("models.none")} text=${t("models.none_text")}>
      <pre class="commands">hostler models add main base_url=https://api.openai.com/v1 api_key=env:OPENAI_API_KEY</pre>
    <//>`;
  }
  return html`<${Table} label=${t("resources.models")} rows=${models} keyOf=${(/** @type {any} */ one) => one.model_id} columns=${[
    { key: "model_id", label: t("models.model"), wide: true, cell: (/** @type {any} */ one) => html`<span><a href=${address("models", one.model_id)}><bdi>${one.model_id}</bdi></a>${one.problem && html`<br /><span class="wrong clamp" dir="auto">${brief(one.problem)}</span>`}</span>` },
    { key: "problem", label: t("models.health"), cell: (/** @type {any} */ one) => html`<${Health} model=${one} />` },
    { key: "model_type", label: t("models.type"), cell: (/** @type {any} */ one) => html`<bdi class="nowrap">${one.model_type}</bdi>` },
    { key: "provider", label: t("models.provider"), cell: (/** @type {any} */ one) => html`<bdi>${one.provider}</bdi>` },
    { key: "operations", label: t("models.operations"), sort: false, cell: (/** @type {any} */ one) => one.operations.length > 0 && html`<${Operations} of=${one} />` },
    { key: "context_window_tokens", label: t("models.window"), figures: true, cell: (/** @type {any} */ one) => one.context_window_tokens && short(one.context_window_tokens) },
    { key: "price", label: t("models.price"), figures: true, sort: false, cell: (/** @type {any} */ one) => priceOf(one.price) },
  ]} />`;
}

/** @param {{model: any, name: string, again: () => Promise<void>}} props */
function Model({ model, name, again }) {
  const done = (/** @type {string | null} */ kept) => (kept === null ? go("/models") : again());
  if (!model) return html`<${Failure} title=${t("models.gone")} text=${name} />`;
  return html`
    <h2 class="thing"><a class="back" href="/models" aria-label=${t("models.back")}>←</a> <bdi>${name}</bdi> <${Health} model=${model} /></h2>
    ${model.problem && html`<div class="failure in-place"><p dir="auto">${model.problem}</p></div>`}
    <dl class="facts card">
      <dt>${t("models.type")}</dt><dd>${model.model_type}</dd>
      <dt>${t("models.provider")}</dt><dd>${model.provider}</dd>
      <dt>${t("models.operations")}</dt><dd><${Operations} of=${model} /></dd>
      <dt>${t("models.window")}</dt><dd>${model.context_window_tokens ? t("models.tokens", { tokens: number(model.context_window_tokens) }) : t("models.unknown")}</dd>
      <dt>${t("models.price")}</dt><dd>${priceOf(model.price)}</dd>
      ${may("usage:read") && html`<dt>${t("models.use")}</dt><dd><a href="/usage?by=model">${t("models.usage")}</a></dd>`}
    </dl>
    ${may("agents:write") && !model.problem && html`<${ModelTest} model=${model} />`}
    ${!may("agents:write") && html`<p class="dim">${t("test.right")}</p>`}
    ${may("installation") ? html`<${ModelEntry} name=${name} done=${done} />` : html`<p class="dim">${t("resources.entry_right")}</p>`}
  `;
}
