// The runners of a plugin with what they can, and the form that an agent fills in; and its tools.
import { html } from "../lib/html.js";
import { brief } from "../lib/brief.js";
import { said, t } from "../lib/i18n.js";
import { address } from "../lib/router.js";

/** @param {{runners: any[], tools: any[]}} props */
export const RunnerForms = ({ runners, tools }) => html`
  ${runners.map((runner) => html`
    <section class="card" key=${runner.id}>
      <h2><bdi>${said(runner.label) || runner.name}</bdi></h2>
      <p><code>${runner.id}</code></p>
      ${runner.description && html`<p dir="auto">${said(runner.description)}</p>`}
      <p class="tags">${Object.entries(runner.capabilities).filter(([, can]) => can).map(([name]) => html`<span key=${name} class="tag">${t(`capability.${name}`)}</span>`)}</p>
      ${runner.config_schema.length > 0 && html`
        <details>
          <summary>${t("runner.form", { count: runner.config_schema.length })}</summary>
          <dl class="form-facts">${runner.config_schema.map((/** @type {any} */ item) => html`<${Item} key=${item.name} item=${item} />`)}</dl>
        </details>`}
    </section>
  `)}
  ${tools.length > 0 && html`
    <section class="card">
      <h2>${t("runner.tools")}</h2>
      <ul class="plain-list">
        ${tools.map((tool) => html`<li key=${tool.name} class="line"><a href=${address("tools", tool.name)}><code>${tool.name}</code></a><span class="grow clamp" dir="auto">${brief(tool.description)}</span></li>`)}
      </ul>
    </section>`}
`;

/** @param {{item: any}} props */
const Item = ({ item }) => html`
  <dt><bdi>${said(item.label) || item.name}</bdi> ${item.required && html`<span class="tag">${t("runner.required")}</span>`}</dt>
  <dd dir="auto"><code>${item.name}</code> <span class="dim">${item.type}${item.default !== null && item.default !== undefined && item.type !== "secret" ? ` = ${JSON.stringify(item.default).slice(0, 80)}` : ""}</span>
    ${item.description && html`<br />${said(item.description)}`}</dd>
`;
