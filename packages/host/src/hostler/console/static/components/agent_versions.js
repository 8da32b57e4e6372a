// The versions of an agent: what changed, by whom, and back to an earlier one.
import { html, useEffect, useState } from "../lib/html.js";
import { get, path, put } from "../lib/api.js";
import { t } from "../lib/i18n.js";
import { here, setQuery } from "../lib/router.js";
import { makerOf } from "../lib/live_agents.js";
import { Diff } from "./diff.js";
import { attempt } from "./notice.js";
import { Failure, Loading } from "./states.js";
import { Ago } from "./time.js";

/** @typedef {import("../lib/live_agents.js").Agent} Agent */

const PAGE = 50;

/** @param {{agent: Agent, write: boolean, saved: (agent: Agent) => void}} props */
export function AgentVersions({ agent, write, saved }) {
  const [items, setItems] = useState(/** @type {Agent[]} */ ([]));
  const [cursor, setCursor] = useState(/** @type {string | null} */ (null));
  const [failure, setFailure] = useState(/** @type {unknown} */ (null));
  const read = (/** @type {string | null} */ from) =>
    get(path("agents", agent.name, "versions"), { limit: PAGE, cursor: from }).then((page) => {
      setItems((before) => (from ? [...before, ...page.items] : page.items));
      setCursor(page.next_cursor);
    }, setFailure);
  useEffect(() => void read(null), [agent.name, agent.version]);
  const { query } = here.value;
  const chosen = Number(query.get("version")) || agent.version;
  const one = items.find((each) => each.version === chosen);
  const against = Number(query.get("against")) || (chosen === agent.version ? chosen - 1 : agent.version);
  const other = items.find((each) => each.version === against);
  const back = async () => {
    if (!one) return;
    const made = await attempt(() => put(`${path("agents", agent.name)}?version=${agent.version}`, one.spec), t("agents.rolled_back", { version: one.version }));
    if (made) saved(made);
  };
  if (failure) return html`<${Failure} error=${failure} retry=${() => (setFailure(null), read(null))} />`;
  if (!items.length) return html`<${Loading} />`;
  const [older, newer] = other && one && other.version < one.version ? [other, one] : [one, other];
  return html`
    <div class="versions">
      <ol class="card plain-list version-list" aria-label=${t("agents.tab.versions")}>
        ${items.map((each) => html`<li key=${each.version}>
          <button class="version" aria-pressed=${each.version === chosen} onClick=${() => setQuery({ version: String(each.version), against: null })}>
            <strong>${t("agents.version", { version: each.version })}</strong>${each.version === agent.version && html` <span class="status good">${t("agents.current")}</span>`}
            <span class="dim" dir="auto"><${Ago} at=${each.made_at} /> · ${makerOf(each)}</span>
          </button>
        </li>`)}
        ${cursor && html`<li><button class="quiet wide" onClick=${() => read(cursor)}>${t("agents.more_versions")}</button></li>`}
      </ol>
      <section>
        <div class="line-of versions-head">
          <label class="field"><span>${t("agents.compare", { version: chosen })}</span>
            <select onChange=${(/** @type {any} */ event) => setQuery({ against: event.target.value })}>
              ${!other && html`<option value="" selected>–</option>`}
              ${items.filter((each) => each.version !== chosen).map((each) => html`<option key=${each.version} value=${each.version} selected=${each.version === against}>${t("agents.version", { version: each.version })}</option>`)}
            </select>
          </label>
          ${write && one && one.version !== agent.version && html`<button onClick=${back}>${t("agents.roll_back", { version: one.version })}</button>`}
        </div>
        ${older && newer ? html`<${Diff} before=${older.spec} after=${newer.spec} labels=${[older, newer].map((each) => t("agents.version", { version: each.version }))} />` : html`<p class="dim">${t("agents.only_version")}</p>`}
      </section>
    </div>
  `;
}
