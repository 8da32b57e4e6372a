// The entry of a hook or a channel: added, changed, removed. What the host refuses is said at its field.
import { html, useEffect, useState } from "../lib/html.js";
import { Problem, get, path, post, put, remove } from "../lib/api.js";
import { t } from "../lib/i18n.js";
import { useDraft } from "../lib/kept_state.js";
import { isShown, mistakesOf, withDefaults } from "../lib/schema_check.js";
import { same } from "../lib/schema_fields.js";
import { withoutHidden } from "../lib/source_fields.js";
import { Confirm } from "./confirm.js";
import { notice } from "./notice.js";
import { SchemaForm } from "./schema_form.js";
import { Loading, reasonOf } from "./states.js";

/** @typedef {import("../lib/schema_fields.js").Field} Field */

const FILE = "config file";
/** @type {Record<string, string>} */
const KINDS = { hooks: "hook", channels: "channel" };

/** Who changed an entry last; null where nobody says. @param {string} kind @param {string} name @param {AbortSignal} signal */
async function madeBy(kind, name, signal) {
  const facts = await Promise.all(["added", "changed"].map((what) =>
    get("/v1/audit", { action: `${KINDS[kind]}.${what}`, target: name, limit: 1 }, signal).then((page) => page.items[0], () => null)));
  return facts.filter(Boolean).sort((a, b) => b.seq - a.seq)[0]?.actor ?? null;
}

/** The mistakes of an answer by place, and those of no field that is shown. @param {unknown} error @param {Set<string>} shown */
function sorted(error, shown) {
  const at = new Map(), rest = /** @type {string[]} */ ([]);
  const errors = error instanceof Problem && Array.isArray(error.details.errors) ? error.details.errors : [];
  for (const one of errors) {
    const place = one.at || one.field || "";
    if (shown.has(place.split(/[.[]/)[0])) at.set(place, one.expected);
    else rest.push(place ? `${place}: ${one.expected}` : one.expected);
  }
  return { at, rest: errors.length ? rest : [reasonOf(error)] };
}

/** @param {{at: Map<string, string>, rest: string[]}} wrong @param {string} place */
const without = ({ at, rest }, place) => ({ at: new Map([...at].filter(([one]) => one !== place && !one.startsWith(`${place}.`) && !one.startsWith(`${place}[`))), rest });

/**
 * @typedef {{kind: string, name?: string, fields: (entry: any) => Field[], more: () => Field[], done: (name: string | null) => void,
 *   refused?: () => void}} Props
 * `name`: of the entry that is changed; without one an entry is added. `fields` and `more` are those of an entry with
 * these values. `done` gets the name, after a change; null after it is removed.
 */

/** `begin`: the values of a new entry. @param {Props & {begin?: any}} props */
export function SourceEntry({ begin = {}, ...props }) {
  const { kind, name } = props;
  const [stored, setStored] = useState(/** @type {any} */ (name === undefined ? begin : undefined));
  const [file, setFile] = useState(false), [times, setTimes] = useState(0);
  useEffect(() => {
    if (name === undefined) return;
    const abort = new AbortController();
    Promise.all([get(path("config", kind, name), {}, abort.signal), madeBy(kind, name, abort.signal)]).then(
      ([found, actor]) => (setFile(actor === FILE), setStored(found.entry)),
      (error) => abort.signal.aborted || setStored(error),
    );
    return () => abort.abort();
  }, [name]);
  if (stored === undefined) return html`<${Loading} />`;
  if (stored instanceof Error || stored === null) return html`<p class="wrong" dir="auto">${stored === null ? t("entry.unreadable") : reasonOf(stored)}</p>`;
  return html`<${EntryForm} key=${times} ...${props} stored=${stored} ofFile=${file} saved=${setStored} anew=${() => setTimes(times + 1)} />`;
}

/** `anew`: begin again with what is stored. @param {Props & {stored: any, ofFile: boolean, saved: (entry: any) => void, anew: () => void}} props */
function EntryForm({ kind, name, fields, more, done, refused, stored, ofFile, saved, anew }) {
  const naming = { name: "name", kind: "line", label: t("settings.name"), help: t(`source.name.${kind}`), required: true, maxLength: 100, pattern: "[A-Za-z0-9][A-Za-z0-9_.\\-]*" };
  const ownOf = (/** @type {any} */ values) => [...(name === undefined ? [naming] : []), ...fields(values)], rest = more();
  const form = useDraft(`${kind} entry ${name ?? ""}`, stored, (values) => [...ownOf(values), ...rest]), entry = form.values;
  const own = ownOf(entry), every = [...own, ...rest];
  const [file, setFile] = useState(ofFile && !form.changed), [open] = useState(rest.some((one) => !same(entry[one.name], stored[one.name])));
  const [all, setAll] = useState(false), [busy, setBusy] = useState(false), [asks, setAsks] = useState(false);
  const [wrong, setWrong] = useState(/** @type {{at: Map<string, string>, rest: string[]}} */ ({ at: new Map(), rest: [] }));
  const [warnings, setWarnings] = useState(/** @type {string[]} */ ([]));
  const disabled = busy || file;
  const change = (/** @type {any} */ next) => {
    for (const key of new Set([...Object.keys(entry), ...Object.keys(next)])) if (next[key] !== entry[key]) setWrong((before) => without(before, key));
    form.change(next);
  };
  const work = async (/** @type {() => Promise<any>} */ act, /** @type {string} */ said) => {
    setBusy(true);
    setWrong({ at: new Map(), rest: [] });
    try {
      const diff = await act();
      notice(said);
      return diff.problems.filter((/** @type {any} */ one) => one.kind === KINDS[kind] && one.name === (name ?? entry.name)).map((/** @type {any} */ one) => (one.place ? `${one.place}: ${one.problem}` : one.problem));
    } catch (error) {
      setWrong(sorted(error, new Set(every.map((one) => one.name))));
      refused?.();
    } finally {
      setBusy(false);
    }
  };
  const save = async (/** @type {Event} */ event) => {
    event.preventDefault();
    setAll(true);
    if (disabled || mistakesOf(every, entry).size) return;
    const filled = withDefaults(every, entry), body = withoutHidden(entry, every, (one) => isShown(one, filled, every));
    const found = await work(() => (name === undefined ? post(path("config", kind), body) : put(path("config", kind, name), body)), t("entry.saved"));
    if (!found) return;
    form.forget();
    if (name !== undefined) saved(entry);
    setWarnings(found);
    done(name ?? entry.name);
  };
  const drop = async () => {
    const gone = await work(() => remove(path("config", kind, /** @type {string} */ (name))), t(`source.removed.${kind}`));
    setAsks(false);
    if (!gone) return;
    form.forget();
    done(null);
  };
  return html`
    <form class="card" onSubmit=${save} novalidate aria-label=${t("entry.title")}>
      ${name !== undefined && html`<h2>${t("entry.title")}</h2>`}
      ${file && html`<div class="note"><p>${t("source.from_file")}</p><button type="button" onClick=${() => setFile(false)}>${t("source.change_here")}</button></div>`}
      <${SchemaForm} fields=${own} values=${entry} change=${change} errors=${wrong.at} all=${all} id=${kind} disabled=${disabled} />
      <details open=${open || rest.some((one) => [...wrong.at.keys()].some((place) => place.split(/[.[]/)[0] === one.name)) || null}><summary>${t("source.more")}</summary>
        <${SchemaForm} fields=${rest} values=${entry} change=${change} errors=${wrong.at} all=${all} id=${`${kind}-more`} disabled=${disabled} /></details>
      ${(wrong.at.size > 0 || wrong.rest.length > 0) && html`<div class="failure in-place" role="alert"><p>${t("entry.refused")}</p>${wrong.rest.length > 0 && html`<ul>${wrong.rest.map((text) => html`<li key=${text} dir="auto">${text}</li>`)}</ul>`}</div>`}
      ${warnings.length > 0 && html`<div class="warning" role="status">${t("source.warned")}<ul>${warnings.map((text) => html`<li key=${text} dir="auto">${text}</li>`)}</ul></div>`}
      ${!file && html`<div class="buttons"><button class="primary" disabled=${busy}>${t(name === undefined ? "entry.add" : "entry.save")}</button>
        ${form.changed && html`<button type="button" disabled=${busy} onClick=${() => (form.forget(), anew())}>${t("agents.discard")}</button>`}
        ${name !== undefined && html`<button type="button" class="danger" onClick=${(/** @type {any} */ event) => (event.currentTarget.focus(), setAsks(true))}>${t("entry.remove")}</button>`}</div>`}
      ${asks && html`<${Confirm} title=${t("source.sure", { name })} text=${t(`source.sure.${kind}`)} action=${t("entry.remove")} confirm=${drop} close=${() => setAsks(false)} />`}
    </form>
  `;
}
