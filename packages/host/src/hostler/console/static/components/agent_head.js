// The head of an agent's page: its state, and what can be done with it as a whole.
import { html, useState } from "../lib/html.js";
import { path, remove, request } from "../lib/api.js";
import { t } from "../lib/i18n.js";
import { makerOf } from "../lib/live_agents.js";
import { go } from "../lib/router.js";
import { may } from "../lib/session.js";
import { Confirm } from "./confirm.js";
import { attempt } from "./notice.js";
import { Ago } from "./time.js";

/** @typedef {import("../lib/live_agents.js").Agent} Agent */

/** @param {{away: boolean, agent: Agent | null, fresh: boolean, dirty: boolean, write: boolean, took: (agent: Agent) => void}} props */
export function AgentHead({ away, agent, fresh, dirty, write, took }) {
  const [asks, setAsks] = useState(false);
  if (fresh || !agent) return html`<header class="head"><h1><a class="back" href="/agents" aria-label=${t("agents.back")}>←</a> <bdi>${t("agents.new")}</bdi></h1></header>`;
  const { name, spec, version } = agent;
  const turn = async () => {
    const body = { ...spec, enabled: !spec.enabled };
    const made = await attempt(() => request("PUT", path("agents", name), { body, query: { version } }), t(spec.enabled ? "agents.disabled" : "agents.enabled"));
    if (made) took(made);
  };
  const drop = async () => {
    const done = await attempt(() => remove(`${path("agents", name)}?version=${version}`).then(() => true), t("agents.deleted", { name }));
    if (done) go("/agents");
    else setAsks(false);
  };
  return html`
    <header class="head">
      <h1><a class="back" href="/agents" aria-label=${t("agents.back")}>←</a> <bdi>${name}</bdi></h1>
      <span class="status ${spec.enabled ? "good" : "dim"}">${t(spec.enabled ? "agents.state.on" : "agents.state.off")}</span>
      <span class="dim">${t("agents.version", { version })} · <${Ago} at=${agent.made_at} /> · <span dir="auto">${makerOf(agent)}</span></span>
      ${away && html`<span class="offline" role="status">${t("state.reconnecting")}</span>`}
      <div class="actions">
        ${may("events:write") && spec.enabled && html`<a class="button" href=${`/chat?agent=${encodeURIComponent(name)}`}>${t("page.chat")}</a>`}
        ${may("runs:read") && html`<a class="button" href=${`/runs?agent=${encodeURIComponent(name)}`}>${t("page.runs")}</a>`}
        ${write && html`<button disabled=${dirty} title=${dirty ? t("agents.save_first") : null} onClick=${turn}>${t(spec.enabled ? "agents.disable" : "agents.enable")}</button>`}
        ${write && html`<button class="danger" onClick=${() => setAsks(true)}>${t("agents.delete")}</button>`}
      </div>
    </header>
    ${asks && html`<${Confirm} title=${t("agents.delete_sure", { name })} action=${t("agents.delete_do")} confirm=${drop} close=${() => setAsks(false)}>
      <ul><li>${t("agents.delete_runs")}</li><li>${t("agents.delete_events")}</li><li>${t("agents.delete_kept")}</li></ul>
    </${Confirm}>`}
  `;
}
