// An entry of the configuration, such as of a hook or a model: added, changed, removed. What the host refuses is said at its field.
import { html, useEffect, useState } from "../lib/html.js";
import { get, path, post, put } from "../lib/api.js";
import { forgetChoices } from "../lib/choices.js";
import { isOfFile, problemsOf, removeEntry, without, wrongOf } from "../lib/config_entries.js";
import { withoutHidden } from "../lib/entry_fields.js";
import { t } from "../lib/i18n.js";
import { useDraft } from "../lib/kept_state.js";
import { isShown, mistakesOf, withDefaults } from "../lib/schema_check.js";
import { same } from "../lib/schema_fields.js";
import { Confirm } from "./confirm.js";
import { notice } from "./notice.js";
import { SchemaForm } from "./schema_form.js";
import { Loading, reasonOf } from "./states.js";
import { Unreadable } from "./unreadable_entries.js";

/** @typedef {import("../lib/schema_fields.js").Field} Field */

/**
 * @typedef {{naming: () => Field[], nameOf: (values: any) => string, read: (entry: any) => any, write: (values: any) => any, within: (values: any) => string}} Shape
 * What the values of a form are to an entry. `naming`: the fields of a new one alone. `within`: the part of the entry that has the fields, "" for the whole.
 *
 * @typedef {{kind: string, name?: string, fields: (entry: any) => Field[], more: (entry: any) => Field[], done: (name: string | null) => void,
 *   refused?: () => void, shape?: Partial<Shape>, draft?: string}} Props
 * `name`: of the entry that is changed; without one an entry is added, of which `draft` tells one form from another. `fields` and `more` are those of an entry with
 * these values. `done` gets the name, after a change; null after it is removed.
 */

/** @param {string} kind @param {Partial<Shape>} [own] @returns {Shape} */
const shapeOf = (kind, own) => ({
  naming: () => [{ name: "name", kind: "line", label: t("settings.name"), help: t(`source.name.${kind}`), required: true, maxLength: 100, pattern: "[A-Za-z0-9][A-Za-z0-9_.\\-]*" }],
  nameOf: (values) => values.name, read: (entry) => entry, write: (values) => values, within: () => "", ...own,
});

/** `begin`: the values of a new entry. @param {Props & {begin?: any}} props */
export function SourceEntry({ begin = {}, ...props }) {
  const { kind, name } = props, shape = shapeOf(kind, props.shape);
  const [stored, setStored] = useState(/** @type {any} */ (name === undefined ? begin : undefined));
  const [file, setFile] = useState(false), [times, setTimes] = useState(0);
  useEffect(() => {
    if (name === undefined) return;
    const abort = new AbortController();
    Promise.all([get(path("config", kind, name), {}, abort.signal), isOfFile(kind, name, abort.signal)]).then(
      ([found, ofFile]) => (setFile(ofFile), setStored(found.entry && shape.read(found.entry))),
      (error) => abort.signal.aborted || setStored(error),
    );
    return () => abort.abort();
  }, [name]);
  if (stored === undefined) return html`<${Loading} />`;
  if (stored === null) return html`<${Unreadable} kind=${kind} name=${name} done=${() => props.done(null)} />`;
  if (stored instanceof Error) return html`<p class="wrong" dir="auto">${reasonOf(stored)}</p>`;
  return html`<${EntryForm} key=${times} ...${props} shape=${shape} stored=${stored} ofFile=${file} saved=${setStored} anew=${() => setTimes(times + 1)} />`;
}

/** `anew`: begin again with what is stored. @param {Props & {shape: Shape, stored: any, ofFile: boolean, saved: (entry: any) => void, anew: () => void}} props */
function EntryForm({ kind, name, draft = "", fields, more, done, refused, shape, stored, ofFile, saved, anew }) {
  const ownOf = (/** @type {any} */ values) => [...(name === undefined ? shape.naming() : []), ...fields(values)];
  const form = useDraft(`${kind} entry ${name ?? draft}`, stored, (values) => [...ownOf(values), ...more(values)]), entry = form.values;
  const own = ownOf(entry), rest = more(entry), every = [...own, ...rest];
  const [file, setFile] = useState(ofFile && !form.changed), [open] = useState(rest.some((one) => !same(entry[one.name], stored[one.name])));
  const [all, setAll] = useState(false), [busy, setBusy] = useState(false), [asks, setAsks] = useState(false);
  const [wrong, setWrong] = useState(/** @type {import("../lib/config_entries.js").Wrong} */ ({ at: new Map(), rest: [] }));
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
      forgetChoices(kind);
      return diff;
    } catch (error) {
      setWrong(wrongOf(error, new Set(every.map((one) => one.name)), shape.within(entry)));
      refused?.();
    } finally {
      setBusy(false);
    }
  };
  const save = async (/** @type {Event} */ event) => {
    event.preventDefault();
    setAll(true);
    if (disabled || mistakesOf(every, entry).size) return;
    const filled = withDefaults(every, entry), body = shape.write(withoutHidden(entry, every, (one) => isShown(one, filled, every)));
    const made = name ?? shape.nameOf(entry), diff = await work(() => (name === undefined ? post(path("config", kind), body) : put(path("config", kind, name), body)), t("entry.saved"));
    if (!diff) return;
    form.forget();
    if (name !== undefined) saved(entry);
    setWarnings(problemsOf(diff, kind, made));
    done(made);
  };
  const drop = async () => {
    const gone = await work(() => removeEntry(kind, /** @type {string} */ (name)), t(`source.removed.${kind}`));
    setAsks(false);
    if (!gone) return;
    form.forget();
    for (const text of gone) notice(text, true); // on the page that is left nobody would read it
    done(null);
  };
  return html`
    <form class="card" onSubmit=${save} novalidate aria-label=${t("entry.title")}>
      ${name !== undefined && html`<h2>${t("entry.title")}</h2>`}
      ${file && html`<div class="note"><p>${t("source.from_file")}</p><button type="button" onClick=${() => setFile(false)}>${t("source.change_here")}</button></div>`}
      <${SchemaForm} fields=${own} values=${entry} change=${change} errors=${wrong.at} all=${all} id=${kind} disabled=${disabled} />
      ${rest.length > 0 && html`<details open=${open || rest.some((one) => [...wrong.at.keys()].some((place) => place.split(/[.[]/)[0] === one.name)) || null}><summary>${t("source.more")}</summary>
        <${SchemaForm} fields=${rest} values=${entry} change=${change} errors=${wrong.at} all=${all} id=${`${kind}-more`} disabled=${disabled} /></details>`}
      ${(wrong.at.size > 0 || wrong.rest.length > 0) && html`<div class="failure in-place" role="alert"><p>${t("entry.refused")}</p>${wrong.rest.length > 0 && html`<ul>${wrong.rest.map((text) => html`<li key=${text} dir="auto">${text}</li>`)}</ul>`}</div>`}
      ${warnings.length > 0 && html`<div class="warning" role="status">${t("source.warned")}<ul>${warnings.map((text) => html`<li key=${text} dir="auto">${text}</li>`)}</ul></div>`}
      ${!file && html`<div class="buttons"><button class="primary" disabled=${busy}>${t(name === undefined ? "entry.add" : "entry.save")}</button>
        ${form.changed && html`<button type="button" disabled=${busy} onClick=${() => (form.forget(), anew())}>${t("agents.discard")}</button>`}
        ${name !== undefined && html`<button type="button" class="danger" onClick=${(/** @type {any} */ event) => (event.currentTarget.focus(), setAsks(true))}>${t("entry.remove")}</button>`}</div>`}
      ${asks && html`<${Confirm} title=${t("source.sure", { name })} text=${t(`source.sure.${kind}`)} action=${t("entry.remove")} confirm=${drop} close=${() => setAsks(false)} />`}
    </form>
  `;
}
