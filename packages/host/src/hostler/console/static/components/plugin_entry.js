// The entry of a plugin in the configuration: added, changed, removed.
import { html, useEffect, useState } from "../lib/html.js";
import { Problem, get, path, post, put, remove } from "../lib/api.js";
import { t } from "../lib/i18n.js";
import { useDraft } from "../lib/kept_state.js";
import { address, go } from "../lib/router.js";
import { mistakesOf } from "../lib/schema_check.js";
import { same } from "../lib/schema_fields.js";
import { Confirm } from "./confirm.js";
import { notice } from "./notice.js";
import { SchemaForm } from "./schema_form.js";
import { reasonOf } from "./states.js";
import { Unreadable } from "./unreadable_entries.js";

/** @typedef {import("../lib/schema_fields.js").Field} Field */

/** @param {string} name @param {string} kind @param {Partial<Field>} [more] @returns {Field} */
const field = (name, kind, more = {}) => ({ name, kind, label: t(`entry.${name}`), help: t(`entry_help.${name}`), required: false, ...more });

/** @returns {Field[]} */
const fields = () => [
  field("path", "line", { required: true }),
  field("level", "select", { fallback: "sandboxed", options: ["sandboxed", "trusted"].map((value) => ({ value, label: t(`level.${value}`) })) }),
  field("network", "names"),
  field("pin", "boolean", { fallback: false }),
];

/** What few plugins need. @returns {Field[]} */
const moreFields = () => [
  field("allow_requires", "names"),
  field("limits", "object", {
    fields: [
      field("memory_mib", "integer", { minimum: 16 }), field("processes", "integer", { minimum: 1 }), field("cpus", "number", { above: 0 }),
      field("disk_mib", "integer", { minimum: 1 }), field("files", "integer", { minimum: 1 }), field("tmp_mib", "integer", { minimum: 1 }),
      field("open_files", "integer", { minimum: 16 }),
    ],
  }),
];

/** The `author/name` of the entry with a path; the path if it cannot be read. @param {string} folder @returns {Promise<string>} */
async function keyOf(folder) {
  const { items } = await get("/v1/config/plugins");
  const found = items.find((/** @type {any} */ one) => one.entry === folder || one.entry?.path === folder);
  return found?.name ?? folder;
}

/** By which name a form is kept. @param {string} [name] */
export const pluginDraft = (name) => `plugin entry ${name ?? ""}`;

/**
 * @typedef {{name?: string, done: () => void}} Props
 * `name`: of the plugin whose entry is changed; without one an entry is added. `done` is called after a change.
 */

/** @param {Props} props */
export function PluginEntry({ name, done }) {
  const [stored, setStored] = useState(/** @type {any} */ (name === undefined ? {} : undefined)), [times, setTimes] = useState(0);
  useEffect(() => {
    if (name === undefined) return;
    const abort = new AbortController();
    get(path("config", "plugins", name), {}, abort.signal).then(
      (found) => setStored(typeof found.entry === "string" ? { path: found.entry } : found.entry),
      (error) => abort.signal.aborted || setStored(error),
    );
    return () => abort.abort();
  }, [name]);
  if (stored === undefined) return html`<p class="loading" />`;
  if (stored instanceof Problem && stored.status === 404) return html`<p class="dim">${t("entry.none")}</p>`;
  if (stored === null) return html`<${Unreadable} kind="plugins" name=${name} done=${() => go("/plugins")} />`;
  if (stored instanceof Error) return html`<p class="wrong" dir="auto">${reasonOf(stored)}</p>`;
  return html`<${EntryForm} key=${times} name=${name} done=${done} stored=${stored} saved=${setStored} anew=${() => setTimes(times + 1)} />`;
}

/** `anew`: begin again with what is stored. @param {Props & {stored: any, saved: (entry: any) => void, anew: () => void}} props */
function EntryForm({ name, done, stored, saved, anew }) {
  const form = useDraft(pluginDraft(name), stored, () => [...fields(), ...moreFields()]), entry = form.values;
  const [open] = useState(moreFields().some((one) => !same(entry[one.name], stored[one.name])));
  const [all, setAll] = useState(false), [busy, setBusy] = useState(false), [asks, setAsks] = useState(false), [saves, setSaves] = useState(0);
  const [wrong, setWrong] = useState(/** @type {string[]} */ ([])), [warnings, setWarnings] = useState(/** @type {string[]} */ ([]));
  const work = async (/** @type {() => Promise<any>} */ change, /** @type {string} */ said) => {
    setBusy(true);
    setWrong([]);
    try {
      const diff = await change();
      notice(said);
      const plugin = name ?? (await keyOf(entry.path));
      // others have their own causes, and were there before
      const own = diff.problems.filter((/** @type {any} */ one) => one.name === plugin || one.problem.includes(plugin));
      const problems = own.map((/** @type {any} */ one) => `${one.kind} ${one.name}: ${one.problem}`);
      setWarnings(problems);
      return { plugin, problems };
    } catch (error) {
      const errors = error instanceof Problem ? error.details.errors : undefined;
      setWrong(Array.isArray(errors) && errors.length ? errors.map((one) => (one.at || one.field ? `${one.at || one.field}: ${one.expected}` : one.expected)) : [reasonOf(error)]);
    } finally {
      setBusy(false);
    }
  };
  const save = async (/** @type {Event} */ event) => {
    event.preventDefault();
    setAll(true);
    if (busy || mistakesOf([...fields(), ...moreFields()], entry).size) return;
    const made = await work(() => (name === undefined ? post("/v1/config/plugins", entry) : put(path("config", "plugins", name), entry)), t("entry.saved"));
    if (!made) return;
    form.forget();
    setAll(false);
    setSaves(saves + 1);
    if (name !== undefined) saved(entry);
    else if (!made.problems.length) go(address("plugins", made.plugin));
    done();
  };
  const drop = async () => {
    const gone = await work(() => remove(path("config", "plugins", /** @type {string} */ (name))), t("entry.removed"));
    setAsks(false);
    if (!gone) return;
    form.forget();
    for (const text of gone.problems) notice(text, true); // on the page that is left nobody would read it
    go("/plugins");
  };
  return html`
    <form onSubmit=${save} novalidate>
      <${SchemaForm} key=${saves} fields=${fields()} values=${entry} change=${form.change} all=${all} id="plugin" disabled=${busy} />
      <details open=${open || null}><summary>${t("entry.more")}</summary>
        <${SchemaForm} fields=${moreFields()} values=${entry} change=${form.change} all=${all} id="plugin-more" disabled=${busy} /></details>
      ${entry.level === "trusted" && html`<p class="warning">${t("permission.level_trusted")}</p>`}
      ${wrong.length > 0 && html`<div class="failure in-place" role="alert"><p>${t("entry.refused")}</p><ul>${wrong.map((text) => html`<li key=${text} dir="auto">${text}</li>`)}</ul></div>`}
      ${warnings.length > 0 && html`<div class="warning" role="status">${t("entry.problems")}<ul>${warnings.map((text) => html`<li key=${text} dir="auto">${text}</li>`)}</ul></div>`}
      <div class="buttons"><button class="primary" disabled=${busy}>${t(name === undefined ? "entry.add" : "entry.save")}</button>
        ${form.changed && html`<button type="button" disabled=${busy} onClick=${() => (form.forget(), anew())}>${t("agents.discard")}</button>`}
        ${name !== undefined && html`<button type="button" class="danger" onClick=${() => setAsks(true)}>${t("entry.remove")}</button>`}</div>
      ${asks && html`<${Confirm} title=${t("entry.sure")} text=${t("entry.sure_help", { name })} action=${t("entry.remove")} confirm=${drop} close=${() => setAsks(false)} />`}
    </form>
  `;
}
