// Where tools come from beside plugins: the entries of the configuration, and one of them.
import { html } from "../lib/html.js";
import { get } from "../lib/api.js";
import { brief } from "../lib/brief.js";
import { t } from "../lib/i18n.js";
import { usePolled } from "../lib/polled.js";
import { go } from "../lib/router.js";
import { PolledStates } from "./polled_states.js";
import { ToolEntry, addressOf, alone } from "./resource_entries.js";
import { Failure } from "./states.js";
import { Table } from "./table.js";

/** @param {AbortSignal} signal */
const read = (signal) => get("/v1/config/tools", {}, signal).then((page) => page.items);

/** @param {{of: any}} props */
const State = ({ of }) => html`<span class="status ${of.problem ? "bad" : "good"}">${t(of.problem ? "models.broken" : "models.ready")}</span>`;

export function ToolSources() {
  const polled = usePolled(read, []), entries = polled.value;
  if (!polled.error && !entries?.length) return null;
  return html`
    <div class="section-head"><h2>${t("tools.sources")}</h2></div>
    <${PolledStates} of=${polled} quiet=${true} />
    ${entries && html`<${Table} label=${t("tools.sources")} rows=${entries} keyOf=${(/** @type {any} */ one) => one.name} columns=${[
      { key: "name", label: t("settings.name"), wide: true, cell: (/** @type {any} */ one) => html`<span><a href=${one.entry === null ? alone(one.name) : addressOf(one.name)}><bdi>${one.name}</bdi></a>${one.problem && html`<br /><span class="wrong clamp" dir="auto">${brief(one.problem)}</span>`}</span>` },
      { key: "problem", label: t("tools.state"), cell: (/** @type {any} */ one) => html`<${State} of=${one} />` },
      { key: "kind", label: t("source.field.kind"), sort: false, cell: (/** @type {any} */ one) => t(`source.option.kind.${one.name.split(":")[0]}`) },
    ]} />`}
  `;
}

/** @param {{name: string | null}} props without a name: a new one */
export const ToolSource = ({ name }) => (name === null ? html`
  <h2 class="thing"><a class="back" href="/tools" aria-label=${t("tools.back")}>←</a> ${t("source.new.tools")}</h2>
  <p class="dim">${t("tools.new_help")}</p>
  <${ToolEntry} />
` : html`<${One} name=${name} />`);

/** @param {{name: string}} props */
function One({ name }) {
  const polled = usePolled(read, [name]), entry = polled.value?.find((/** @type {any} */ one) => one.name === name);
  const done = (/** @type {string | null} */ kept) => (kept === null ? go("/tools") : polled.again());
  return html`
    <h2 class="thing"><a class="back" href="/tools" aria-label=${t("tools.back")}>←</a> <bdi>${name}</bdi> ${entry && html`<${State} of=${entry} />`}</h2>
    <${PolledStates} of=${polled} quiet=${true} />
    ${polled.value && !entry && html`<${Failure} title=${t("tools.no_source")} />`}
    ${entry && html`
      ${entry.problem && html`<div class="failure in-place"><p dir="auto">${entry.problem}</p></div>`}
      <${ToolEntry} name=${name} done=${done} />`}
  `;
}
