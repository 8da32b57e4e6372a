// An agent as it is in a configuration file.
import { html, useEffect, useState } from "../lib/html.js";
import { get, path } from "../lib/api.js";
import { t } from "../lib/i18n.js";
import { here, setQuery } from "../lib/router.js";
import { CopyButton } from "./copy_button.js";
import { Failure, Loading } from "./states.js";

/** @param {{name: string, version: number}} props */
export function AgentRaw({ name, version }) {
  const [found, setFound] = useState(/** @type {any} */ (null));
  const read = () => get(path("agents", name, "entry")).then(setFound, setFound);
  useEffect(() => void read(), [name, version]);
  if (found === null) return html`<${Loading} />`;
  if (found instanceof Error) return html`<${Failure} error=${found} retry=${read} />`;
  const json = here.value.query.get("as") === "json";
  const text = json ? JSON.stringify({ agents: [found.entry] }, null, 2) : found.yaml;
  return html`
    <section class="card">
      <div class="line-of raw-head">
        <label class="field"><span>${t("agents.raw_as")}</span>
          <select onChange=${(/** @type {any} */ event) => setQuery({ as: event.target.value === "json" ? "json" : null })}>
            <option value="yaml" selected=${!json}>YAML</option><option value="json" selected=${json}>JSON</option>
          </select>
        </label>
        <${CopyButton} text=${text} />
      </div>
      <pre class="raw" dir="auto" tabindex="0" aria-label=${t("agents.tab.raw")}>${text}</pre>
      <p class="help">${t("agents.raw_help")} <code>hostler export</code></p>
    </section>
  `;
}
