// What is stored and how much may be; how long it is kept; copies and keys of it.
import { html } from "../lib/html.js";
import { get, path, post, put, remove } from "../lib/api.js";
import { number, size } from "../lib/format.js";
import { useFresh, usePages } from "../lib/fresh.js";
import { plainFields } from "../lib/form_changes.js";
import { t } from "../lib/i18n.js";
import { keep } from "../lib/kept.js";
import { useDraft } from "../lib/kept_state.js";
import { may } from "../lib/session.js";
import { ConfirmButton } from "../components/confirm.js";
import { CopyButton } from "../components/copy_button.js";
import { Listing } from "../components/listing.js";
import { attempt } from "../components/notice.js";
import { Empty, Failure, Loading } from "../components/states.js";
import { Table } from "../components/table.js";
import { Ago } from "../components/time.js";

/** @param {any} one @param {number} amount */
const written = (one, amount) => (one.quantity.endsWith("_bytes") ? size(amount) : number(amount));

export function Quotas() {
  const list = usePages("/v1/quotas", { limit: undefined }, 15);
  const rows = (list.items ?? []).filter((one) => one.used || one.limit !== null || one.level === "workspace");
  const columns = [
    { key: "level", label: t("quotas.level"), cell: (/** @type {any} */ one) => t(`quota_level.${one.level}`) },
    { key: "name", label: t("settings.name"), cell: (/** @type {any} */ one) => (one.level === "agent" ? html`<a href=${`/runs?${new URLSearchParams({ agent: one.name })}`}><bdi>${one.name}</bdi></a>` : html`<bdi>${one.name}</bdi>`) },
    { key: "quantity", label: t("quotas.what"), cell: (/** @type {any} */ one) => t(`quota_of.${one.quantity}`) },
    { key: "used", label: t("quotas.used"), figures: true, cell: (/** @type {any} */ one) => written(one, one.used) },
    { key: "limit", label: t("quotas.limit"), figures: true, cell: (/** @type {any} */ one) => (one.limit === null ? t("quotas.no_limit") : written(one, one.limit)) },
    { key: "share", label: t("quotas.share"), value: (/** @type {any} */ one) => (one.limit ? one.used / one.limit : null), cell: (/** @type {any} */ one) => {
      if (!one.limit) return "";
      const share = Math.min(1, one.used / one.limit);
      return html`<span class="meter ${share >= 1 ? "bad" : share > 0.8 ? "waits" : ""}" role="meter" aria-label=${`${one.name} ${t(`quota_of.${one.quantity}`)}`} aria-valuemin="0" aria-valuemax="100" aria-valuenow=${Math.round(share * 100)}><span style=${{ width: `${share * 100}%` }} /></span>`;
    } },
  ];
  return html`
    <div class="section-head"><h2>${t("settings_tab.quotas")}</h2></div>
    <p class="dim">${t("quotas.help")} <a href="/usage/budgets">${t("usage.budgets")}</a></p>
    <${Listing} list=${{ ...list, items: list.items && rows }} empty=${html`<${Empty} title=${t("quotas.none")} />`}>
      <${Table} label=${t("settings_tab.quotas")} columns=${columns} rows=${rows} keyOf=${(/** @type {any} */ one) => `${one.level} ${one.name} ${one.quantity}`} />
    </${Listing}>
  `;
}

const KINDS = ["events", "transcripts", "journals", "deltas", "artifacts", "states"];
const DRAFT = "retention";

export function Retention() {
  const fresh = useFresh((signal) => get(path("config", "retention"), {}, signal), []);
  if (fresh.error) return html`<${Failure} error=${fresh.error} retry=${fresh.reload} />`;
  if (!fresh.data) return html`<${Loading} />`;
  const stored = fresh.data.items[0];
  return html`<${RetentionForm} key=${JSON.stringify(stored ?? null)} entry=${stored?.entry ?? {}} problem=${stored?.problem} done=${fresh.reload} />`;
}

/** @param {{entry: any, problem?: string, done: () => Promise<void>}} props */
function RetentionForm({ entry, problem, done }) {
  const stored = Object.fromEntries(KINDS.map((kind) => [kind, String(entry[kind] ?? "")]));
  const form = useDraft(DRAFT, stored, () => plainFields(KINDS)), days = form.values;
  const shorter = KINDS.filter((kind) => days[kind] !== "" && (entry[kind] === undefined || entry[kind] === null || Number(days[kind]) < entry[kind]));
  const store = async () => {
    const body = { ...entry, ...Object.fromEntries(KINDS.map((kind) => [kind, days[kind] === "" ? null : Number(days[kind])])) };
    const whole = Object.fromEntries(Object.entries(body).filter(([, value]) => value !== null));
    const done_ = Object.keys(whole).length ? () => put(path("config", "retention", "policy"), whole) : () => remove(path("config", "retention", "policy"));
    const made = await attempt(() => done_().then(() => true), t("retention.stored"));
    if (made) keep(DRAFT, undefined); // the form begins again with what is stored
    await done();
  };
  const others = Object.entries(entry.workspaces ?? {});
  return html`
    <div class="section-head"><h2>${t("settings_tab.retention")}</h2></div>
    <p class="dim">${t("retention.help")}</p>
    ${problem && html`<p class="wrong" dir="auto">${problem}</p>`}
    <form class="card form" onSubmit=${(/** @type {Event} */ event) => event.preventDefault()}>
      ${KINDS.map((kind) => html`<label class="field" key=${kind}><span>${t(`retention.${kind}`)}</span>
        <input type="number" min="0" step="any" value=${days[kind]} placeholder=${t("retention.for_ever")} aria-describedby=${`retention-${kind}`}
          onInput=${(/** @type {any} */ event) => form.set(kind, event.target.value)} /><span id=${`retention-${kind}`} class="dim">${t("retention.days")}</span></label>`)}
      ${shorter.length > 0 && html`<p class="waits-text">${t("retention.shorter", { kinds: shorter.map((kind) => t(`retention.${kind}`)).join(", ") })}</p>`}
      ${form.changed && html`<div class="row-buttons"><${ConfirmButton} label=${t("retention.store")} question=${t("retention.sure")} danger=${shorter.length > 0} act=${store} />
        <button type="button" onClick=${form.forget}>${t("agents.discard")}</button></div>`}
    </form>
    ${others.length > 0 && html`<section class="card"><h3>${t("retention.workspaces")}</h3>
      <dl class="facts">${others.map(([name, own]) => html`<dt key=${name}><bdi>${name}</bdi></dt><dd>${Object.entries(/** @type {any} */ (own)).map(([kind, value]) => `${t(`retention.${kind}`)}: ${value === "forever" ? t("retention.for_ever") : value}`).join(" · ")}</dd>`)}</dl>
      <p class="dim">${t("retention.workspaces_help")}</p></section>`}
  `;
}

/** @param {{text: string}} props */
const Command = ({ text }) => html`<div class="once-line"><code class="secret">${text}</code><${CopyButton} text=${text} /></div>`;

export function Backup() {
  const fresh = useFresh((signal) => (may("installation") ? get("/v1/backup", {}, signal) : Promise.resolve(null)), []), last = fresh.data;
  return html`
    <div class="section-head"><h2>${t("settings_tab.backup")}</h2></div>
    ${fresh.error && html`<${Failure} error=${fresh.error} retry=${fresh.reload} />`}
    ${last && html`<section class="card"><h3>${t("backup.last")}</h3>
      <p>${last.created_at === null ? t("backup.none") : html`<${Ago} at=${last.created_at} /> · ${t("backup.holds", { version: last.version, count: last.blobs, size: size(last.blob_bytes) })}`}</p>
      <p class="dim">${t("backup.last_help")}</p></section>`}
    <section class="card"><p>${t("backup.help")}</p>
      <h3>${t("backup.make")}</h3><${Command} text="hostler backup BACKUP" />
      <h3>${t("backup.restore")}</h3><${Command} text="hostler restore BACKUP --data NEW-FOLDER" />
      <h3>${t("backup.check")}</h3><${Command} text="hostler audit verify" />
    </section>
    <section class="card"><h3>${t("backup.not_inside")}</h3><p>${t("backup.not_inside_text")}</p></section>
  `;
}

export function Encryption() {
  const list = usePages("/v1/master-keys", { limit: undefined });
  const rotate = async () => {
    const found = await attempt(() => post("/v1/workspace-keys/rotate", {}));
    if (found) await attempt(async () => {}, t("encryption.rotated", { count: found.replaced }));
    await list.reload();
  };
  const columns = [
    { key: "key_id", label: t("run.id"), cell: (/** @type {any} */ one) => html`<code>${one.key_id}</code>` },
    { key: "reference", label: t("encryption.reference"), wide: true, cell: (/** @type {any} */ one) => (one.reference ? html`<code>${one.reference}</code>` : html`<span class="wrong">${t("encryption.missing")}</span>`) },
    { key: "current", label: t("runs.status"), value: (/** @type {any} */ one) => Number(one.current), cell: (/** @type {any} */ one) => html`<span class="status ${one.current ? "good" : "dim"}">${t(one.current ? "encryption.current" : "encryption.earlier")}</span>` },
    { key: "uses", label: t("encryption.uses"), sort: false, cell: (/** @type {any} */ one) => Object.entries(one.uses).map(([name, count]) => `${name}: ${number(/** @type {number} */ (count))}`).join(" · ") },
  ];
  return html`
    <div class="section-head"><h2>${t("settings_tab.encryption")}</h2></div>
    <p class="dim">${t("encryption.help")}</p>
    <${Listing} list=${list} empty=${html`<${Empty} title=${t("encryption.none")} text=${t("encryption.none_text")}>
      <pre class="commands">openssl rand -base64 32 > /run/secrets/hostler-master-key${"\n"}hostler config set master_key file:/run/secrets/hostler-master-key</pre></${Empty}>`}>
      <${Table} label=${t("settings_tab.encryption")} columns=${columns} rows=${list.items ?? []} keyOf=${(/** @type {any} */ one) => one.key_id} />
      ${may("installation") && html`<section class="card"><h3>${t("encryption.rotate_title")}</h3><p>${t("encryption.rotate_help")}</p>
        <${ConfirmButton} label=${t("encryption.rotate")} question=${t("encryption.rotate_sure")} act=${rotate} /></section>`}
    </${Listing}>
  `;
}
