// Who did what to what, newest first; and whether the log is whole.
import { html, useEffect, useLayoutEffect, useMemo, useState } from "../lib/html.js";
import { get } from "../lib/api.js";
import { targetLink, fieldLink } from "../lib/audit_links.js";
import { csv, save } from "../lib/csv.js";
import { moment, number } from "../lib/format.js";
import { readPages } from "../lib/fresh.js";
import { t } from "../lib/i18n.js";
import { liveAudit } from "../lib/live_audit.js";
import { addAbove, keptList, usePlace } from "../lib/places.js";
import { here, setQuery } from "../lib/router.js";
import { isoDate } from "../lib/usage.js";
import { Dialog } from "../components/dialog.js";
import { Value } from "../components/json.js";
import { attempt, notice } from "../components/notice.js";
import { PathTabs } from "../components/path_tabs.js";
import { Empty, Failure, Loading } from "../components/states.js";
import { ThingLink } from "../components/thing_link.js";
import { Ago } from "../components/time.js";
import { VerifyChains } from "../components/verify_chains.js";
import { WindowList } from "../components/window_list.js";

/** @typedef {import("../lib/live_audit.js").Fact} Fact */

const ROW_PIXELS = 44;
const EXPORT_PAGES = 100;
const FAMILIES = ["action", "agent", "approval_rule", "artifact", "assets", "budget", "channel", "conversation", "data", "event", "events", "hook", "key", "knowledge_base", "knowledge_document", "mcp_server", "member", "model", "outbox", "pairing", "pause", "person", "plugin", "run", "sandbox", "schedule", "secret", "session", "sign_in", "skill", "steering", "token", "tool", "webhook", "worker", "workspace_keys"];
const TEXTS = ["actor", "action", "target"];
/** More than what two clocks make of one moment. */
const MOMENT_SECONDS = 0.001;

/** @param {{tab?: string}} props */
export function Page({ tab = "" }) {
  const tabs = [{ name: "", label: t("audit.log") }, { name: "verify", label: t("audit.verify_tab") }];
  return html`
    <header class="head"><h1>${t("page.audit")}</h1>${tab === "" && html`<${Filters} />`}</header>
    <${PathTabs} base="/audit" tabs=${tabs} current=${tab} label=${t("page.audit")} />
    ${tab === "" ? html`<${Log} />` : tab === "verify" ? html`<${VerifyChains} />` : html`<${Failure} title=${t("shell.no_page")} />`}
  `;
}

/** The filters of an address, as the API takes them. @param {URLSearchParams} query */
function filtersOf(query) {
  const day = (/** @type {string} */ name, /** @type {number} */ more) => {
    const at = Date.parse(`${query.get(name)}T00:00:00`);
    return Number.isNaN(at) ? "" : at / 1000 + more;
  };
  return {
    actor: query.get("actor") ?? "", action: query.get("action") ?? "", target: query.get("target") ?? "",
    outcome: query.get("outcome") === "refused" || query.get("outcome") === "done" ? query.get("outcome") : "",
    since: day("from", 0), until: day("until", 86400 - 0.001),
  };
}

function Filters() {
  const { query } = here.value;
  const change = (/** @type {string} */ name) => (/** @type {any} */ event) => setQuery({ [name]: event.target.value.trim() });
  return html`
    <form class="filters many" role="search" onSubmit=${(/** @type {Event} */ event) => event.preventDefault()}>
      ${TEXTS.map((name) => html`<label class="field" key=${name}><span>${t(`audit.${name}`)}</span>
        <input type="search" value=${query.get(name) ?? ""} placeholder=${t("runs.any")} list=${name === "action" ? "audit-actions" : null} onChange=${change(name)} />
      </label>`)}
      <datalist id="audit-actions">${FAMILIES.map((name) => html`<option key=${name} value=${name} />`)}</datalist>
      <label class="field"><span>${t("audit.outcome")}</span>
        <select onChange=${change("outcome")}>
          <option value="">${t("runs.any")}</option>
          ${["done", "refused"].map((name) => html`<option key=${name} value=${name} selected=${query.get("outcome") === name}>${t(`outcome.${name}`)}</option>`)}
        </select>
      </label>
      ${["from", "until"].map((name) => html`<label class="field" key=${name}><span>${t(`usage.${name}`)}</span>
        <input type="date" value=${query.get(name) ?? ""} onChange=${change(name)} /></label>`)}
    </form>
  `;
}

/** How the address names an entry (`?entry=`): its moment and its place. @param {Fact} fact */
const entryOf = (fact) => `${fact.at}-${fact.seq}`;

/** The entry that the address names: of those that are read, or read alone. @param {Fact[]} facts */
function useEntry(facts) {
  const wanted = here.value.query.get("entry") ?? "", [, at] = /^(\d+(?:\.\d+)?)-\d+$/.exec(wanted) ?? [];
  const [found, setFound] = useState(/** @type {Fact | undefined} */ (undefined));
  const of = (/** @type {Fact[]} */ list) => list.find((fact) => entryOf(fact) === wanted), known = of(facts);
  useEffect(() => {
    if (!at || known) return;
    const around = { since: Math.max(0, Number(at) - MOMENT_SECONDS), until: Number(at) + MOMENT_SECONDS, limit: 100 };
    attempt(() => get("/v1/audit", around)).then((page) => page && (of(page.items) ? setFound(of(page.items)) : notice(t("audit.no_entry"), true)));
  }, [wanted]);
  return known ?? (found && of([found]));
}

function Log() {
  const { query } = here.value, filters = filtersOf(query);
  const names = new URLSearchParams(query);
  names.delete("entry");
  const key = names.toString();
  const log = useMemo(() => liveAudit(filters), [key]);
  useEffect(() => log.stop, [log]);
  const facts = log.facts.value, state = log.state.value;
  const open = useEntry(facts);
  const newest = useMemo(() => keptList() ?? Infinity, [key]);
  usePlace(() => facts[0]?.seq);
  useLayoutEffect(() => addAbove(facts.filter((fact) => fact.seq > newest).length * ROW_PIXELS), [facts, newest]);
  return html`
    <div class="section-head">
      <span class="dim">${log.connected.value ? t("audit.live") : html`<span class="offline" role="status">${t("state.reconnecting")}</span>`}</span>
      <${Export} filters=${filters} disabled=${facts.length === 0} />
    </div>
    ${state === "loading" && html`<${Loading} />`}
    ${state instanceof Error && html`<${Failure} error=${state} retry=${() => setQuery({ again: String(Date.now()) })} />`}
    ${state === "ready" && facts.length === 0 && log.all.value && html`<${Empty} title=${t(key ? "audit.no_match" : "audit.none")} text=${key ? "" : t("audit.none_text")}>
      ${key && html`<button onClick=${() => setQuery(Object.fromEntries([...query.keys()].map((name) => [name, null])))}>${t("audit.clear")}</button>`}
    </${Empty}>`}
    ${facts.length > 0 && html`<${WindowList} items=${facts} height=${ROW_PIXELS} keyOf=${(/** @type {Fact} */ fact) => fact.audit_id} more=${log.more}
      label=${t("page.audit")} row=${(/** @type {Fact} */ fact) => html`<${Row} fact=${fact} open=${(/** @type {Fact} */ one) => setQuery({ entry: entryOf(one) })} />`} />`}
    ${log.paused.value && html`<${Empty} title=${t("audit.none_yet")} text=${t("audit.none_yet_text")}><button onClick=${log.more}>${t("audit.further")}</button></${Empty}>`}
    ${open && html`<${Detail} fact=${open} close=${() => setQuery({ entry: null })} />`}
  `;
}

/** @param {{fact: Fact, open: (fact: Fact) => void}} props */
function Row({ fact, open }) {
  const link = targetLink(fact.action, fact.target);
  const name = fact.actor_name ?? fact.actor;
  return html`
    <div class="fact">
      <button class="quiet action" title=${t("audit.show")} onClick=${() => open(fact)}><span class=${fact.outcome === "refused" ? "wrong" : ""}>${fact.action}</span></button>
      <a class="who-did" href=${`/audit?${new URLSearchParams({ actor: fact.actor })}`} title=${fact.actor}><bdi>${name}</bdi></a>
      <span class="what" title=${fact.target}><${ThingLink} to=${link}>${fact.target}<//></span>
      <span class="dim when"><${Ago} at=${fact.at} /></span>
    </div>
  `;
}

/** @param {{fact: Fact, close: () => void}} props */
function Detail({ fact, close }) {
  const fields = Object.entries(fact.body ?? {}).flatMap(([name, value]) => {
    const to = fieldLink(name, value);
    return to ? [{ name, value: String(value), to }] : [];
  });
  const link = targetLink(fact.action, fact.target);
  return html`
    <${Dialog} title=${fact.action} close=${close} wide>
      <dl class="facts">
        <dt>${t("audit.when")}</dt><dd>${moment(fact.at)}</dd>
        <dt>${t("audit.actor")}</dt><dd><a href=${`/audit?${new URLSearchParams({ actor: fact.actor })}`}><bdi>${fact.actor_name ? `${fact.actor_name} (${fact.actor})` : fact.actor}</bdi></a></dd>
        <dt>${t("audit.target")}</dt><dd><${ThingLink} to=${link}>${fact.target}<//>
          ${" "}<a class="dim" href=${`/audit?${new URLSearchParams({ target: fact.target })}`}>${t("audit.all_of_target")}</a></dd>
        <dt>${t("audit.outcome")}</dt><dd>${t(`outcome.${fact.outcome}`)}</dd>
        ${fields.map((one) => html`<dt key=${one.name}>${one.name}</dt><dd><a href=${one.to}><bdi>${one.value}</bdi></a></dd>`)}
        <dt>${t("audit.place")}</dt><dd>${number(fact.seq)} <code>${fact.audit_id}</code></dd>
      </dl>
      <${Value} value=${fact.body} />
    </${Dialog}>
  `;
}

/** @param {{filters: Record<string, any>, disabled: boolean}} props */
function Export({ filters, disabled }) {
  const [busy, setBusy] = useState(false);
  const run = async () => {
    setBusy(true);
    const found = await attempt(() => readPages("/v1/audit", filters, EXPORT_PAGES));
    setBusy(false);
    if (!found) return;
    const rows = found.items.map((/** @type {Fact} */ fact) => [new Date(fact.at * 1000).toISOString(), fact.actor, fact.actor_name, fact.action, fact.target, fact.outcome, fact.body, fact.seq, fact.audit_id]);
    save(`hostler-audit-${isoDate(Date.now() / 1000)}.csv`, csv(["at", "actor", "name", "action", "target", "outcome", "body", "seq", "audit_id"], rows));
    if (found.more) notice(t("audit.export_cut", { count: rows.length }));
  };
  return html`<button disabled=${busy || disabled} onClick=${run}>${t(busy ? "audit.exporting" : "usage.export")}</button>`;
}
