// Budgets: what is used and reserved of each, and how people add to them.
import { html, useState } from "../lib/html.js";
import { path, post } from "../lib/api.js";
import { duration, money, number } from "../lib/format.js";
import { usePages } from "../lib/fresh.js";
import { t } from "../lib/i18n.js";
import { address, here, setQuery } from "../lib/router.js";
import { may } from "../lib/session.js";
import { attempt } from "./notice.js";
import { Empty, Failure, Loading } from "./states.js";
import { Ago } from "./time.js";

const SPANS = ["run", "day", "conversation", "conversation_day", "person", "person_day", "workspace", "workspace_day"];
const CALM = 0.8;

/** How an amount of a quantity is written. @param {string} quantity @param {number} amount */
const written = (quantity, amount) => (quantity === "cost" ? money(amount) : quantity === "seconds" ? duration(amount) : number(amount));

export function Budgets() {
  const { query } = here.value;
  const filters = { span: query.get("span") ?? "", agent: query.get("agent") ?? "" };
  const list = usePages("/v1/budgets", filters, 10);
  const filtered = Boolean(filters.span || filters.agent);
  return html`
    <form class="filters many inline" role="search" onSubmit=${(/** @type {Event} */ event) => event.preventDefault()}>
      <label class="field"><span>${t("budgets.span")}</span>
        <select value=${filters.span} onChange=${(/** @type {any} */ event) => setQuery({ span: event.target.value })}>
          <option value="">${t("runs.any")}</option>
          ${SPANS.map((name) => html`<option key=${name} value=${name} selected=${name === filters.span}>${t(`budget_span.${name}`)}</option>`)}
        </select>
      </label>
      <label class="field"><span>${t("runs.agent")}</span>
        <input type="search" value=${filters.agent} placeholder=${t("runs.any")} onChange=${(/** @type {any} */ event) => setQuery({ agent: event.target.value.trim() })} />
      </label>
      ${list.offline && html`<span class="offline" role="status">${t("state.reconnecting")}</span>`}
    </form>
    ${list.error && html`<${Failure} error=${list.error} retry=${list.reload} />`}
    ${!list.items && !list.error && html`<${Loading} />`}
    ${list.items?.length === 0 && html`<${Empty} title=${t(filtered ? "budgets.no_match" : "budgets.none")} text=${filtered ? "" : t("budgets.none_text")}>
      ${!filtered && html`<pre class="commands">resource_policy:${"\n"}  budget:${"\n"}    max_cost_per_day: 20.0${"\n"}    max_tokens_per_conversation: 500000</pre>`}
    </${Empty}>`}
    <div class="cards">${list.items?.map((budget) => html`<${Budget} key=${budget.id} budget=${budget} changed=${list.reload} />`)}</div>
    ${list.more && html`<button onClick=${list.next}>${t("list.more")}</button>`}
  `;
}

/** What a budget is for, each as a link. @param {{budget: any}} props */
const Owner = ({ budget }) => html`
  ${budget.agent && html`<a href=${`/runs?${new URLSearchParams({ agent: budget.agent })}`}><bdi>${budget.agent}</bdi></a>`}
  ${budget.run_id && html`<a href=${address("runs", budget.run_id)}><code>${budget.run_id}</code></a>`}
  ${budget.conversation_id && html`<a href=${`/runs?${new URLSearchParams({ conversation: budget.conversation_id })}`}><bdi>${budget.conversation_id}</bdi></a>`}
  ${budget.person && html`<bdi>${budget.person}</bdi>`}
`;

/** @param {{budget: any, changed: () => Promise<void>}} props */
function Budget({ budget, changed }) {
  const [adding, setAdding] = useState(false);
  const quantities = Object.keys({ ...budget.limits, ...budget.used }).sort();
  const over = budget.day && budget.day < new Date().toISOString().slice(0, 10);
  const limited = Object.keys(budget.limits);
  const writes = may("budgets:write") && limited.length > 0 && !over;
  const whole = budget.span.startsWith("workspace") && !may("installation");
  return html`
    <section class="card budget">
      <h2>${t(`budget_span.${budget.span}`)}${budget.day && html` <span class="dim">${budget.day}</span>`}</h2>
      <p class="owner"><${Owner} budget=${budget} /></p>
      ${quantities.map((quantity) => html`<${Line} key=${quantity} budget=${budget} quantity=${quantity} />`)}
      <div class="line">
        <span class="dim grow">${budget.updated_at && html`${t("budgets.charged")} <${Ago} at=${budget.updated_at} />`}</span>
        ${writes && whole && html`<span class="dim">${t("budgets.of_installation")}</span>`}
        ${writes && !whole && html`<button aria-expanded=${adding} onClick=${() => setAdding(!adding)}>${t("budgets.add")}</button>`}
      </div>
      ${adding && html`<${TopUp} budget=${budget} limited=${limited} done=${() => { setAdding(false); changed(); }} />`}
    </section>
  `;
}

/** @param {{budget: any, quantity: string}} props */
function Line({ budget, quantity }) {
  const used = budget.used[quantity] ?? 0, reserved = budget.reserved[quantity] ?? 0, added = budget.added[quantity] ?? 0;
  const limit = budget.limits[quantity] === undefined ? null : budget.limits[quantity] + added;
  const share = limit ? Math.min(1, used / limit) : limit === 0 ? 1 : 0;
  const held = limit ? Math.min(1 - share, reserved / limit) : 0;
  const name = t(`budget_of.${quantity}`);
  return html`
    <div class="use">
      <span>${name}</span>
      <span class="figures">${written(quantity, used)}${limit !== null && html` ${t("budgets.of", { limit: written(quantity, limit) })}`}
        ${added > 0 && html` <span class="dim">${t("budgets.with_added", { added: written(quantity, added) })}</span>`}</span>
      ${limit !== null && html`<span class="meter ${share >= 1 ? "bad" : share + held > CALM ? "waits" : ""}" role="meter" aria-label=${name} aria-valuemin="0" aria-valuemax="100" aria-valuenow=${Math.round(share * 100)}>
        <span style=${{ width: `${share * 100}%` }} /><span class="held" style=${{ width: `${held * 100}%` }} />
      </span>`}
    </div>
  `;
}

/** @param {{budget: any, limited: string[], done: () => void}} props */
function TopUp({ budget, limited, done }) {
  const [busy, setBusy] = useState(false);
  const submit = async (/** @type {any} */ event) => {
    event.preventDefault();
    const given = new FormData(event.target), amounts = limited.map((name) => [name, Number(given.get(name) || 0)]).filter(([, amount]) => amount);
    if (!amounts.length) return void event.target.querySelector("input")?.focus();
    setBusy(true);
    const made = await attempt(() => post(path("budgets", budget.id, "top-up"), { ...Object.fromEntries(amounts), comment: String(given.get("comment") || "") || undefined }), t("budgets.added"));
    setBusy(false);
    if (made) done();
  };
  return html`
    <form class="form" onSubmit=${submit}>
      ${limited.map((name) => html`<label class="field" key=${name}><span>${t(`budget_of.${name}`)}</span>
        <input name=${name} type="number" min="0" step=${name === "cost" || name === "seconds" ? "any" : "1"} inputmode="decimal" /></label>`)}
      <label class="field"><span>${t("budgets.why")}</span><input name="comment" maxlength="1000" /></label>
      <button class="primary" disabled=${busy}>${t("budgets.add")}</button>
    </form>
  `;
}
