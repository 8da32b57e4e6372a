// What carries out an agent's runs, and with which settings.
import { html, useEffect, useState } from "../lib/html.js";
import { get, path } from "../lib/api.js";
import { promptFields } from "../lib/agent_fields.js";
import { said, t } from "../lib/i18n.js";
import { address } from "../lib/router.js";
import { fieldsOfRunner } from "../lib/schema_fields.js";
import { Fold } from "./fold.js";
import { FieldOf, SchemaForm } from "./schema_form.js";
import { Loading, reasonOf } from "./states.js";

/** @typedef {import("../lib/schema_check.js").Mistakes} Mistakes */
/** @typedef {{runner: string, label: any, description: any, network?: string[]}} Known */

/** Those of the tests of models and tools. */
const TRIALS = "plugin:hostler/trial/";

/** Runners that the host knows, and those that come with it. @returns {Known[]} */
export function useRunners() {
  const [found, setFound] = useState(/** @type {Known[]} */ ([]));
  useEffect(() => {
    let gone = false;
    Promise.allSettled([get("/v1/runners"), get("/v1/catalogue")]).then(([known, shipped]) => {
      if (gone) return;
      const listed = known.status === "fulfilled" ? known.value.items.map((/** @type {any} */ one) => ({ ...one, runner: one.id })) : [];
      const ids = new Set(listed.map((/** @type {Known} */ one) => one.runner));
      const more = shipped.status === "fulfilled" ? shipped.value.runners.filter((/** @type {Known} */ one) => !ids.has(one.runner)) : [];
      setFound([...listed, ...more].filter((one) => !one.runner.startsWith(TRIALS)).sort((a, b) => (a.runner < b.runner ? -1 : 1)));
    });
    return () => void (gone = true);
  }, []);
  return found;
}

/**
 * The manifest of a runner; an error where it cannot be had, null until it is there.
 * @param {string} runner
 * @returns {any}
 */
export function useManifest(runner) {
  const [found, setFound] = useState(/** @type {{runner: string, value: any}} */ ({ runner: "", value: null }));
  useEffect(() => {
    if (!runner) return;
    let gone = false;
    get(path("runners", runner)).then((value) => gone || setFound({ runner, value }), (value) => gone || setFound({ runner, value }));
    return () => void (gone = true);
  }, [runner]);
  return found.runner === runner ? found.value : null;
}

/**
 * `manifest`: of the runner, by useManifest. `fresh`: the agent has no name yet.
 * @param {{spec: any, change: (spec: any) => void, manifest: any, runners: Known[], errors: Mistakes, all: boolean, disabled: boolean, fresh: boolean}} props
 */
export function AgentEditor({ spec, change, manifest, runners, errors, all, disabled, fresh }) {
  const known = runners.find((one) => one.runner === spec.runner);
  const options = runners.map((one) => ({ value: one.runner, label: `${said(one.label) || one.runner} — ${one.runner}` }));
  const name = { name: "name", kind: "line", label: t("agents.name"), help: t("agents.name_help"), required: true, maxLength: 200 };
  const runner = { name: "runner", kind: "select", label: t("agents.field.runner"), help: said(manifest instanceof Error ? "" : manifest?.description) || said(known?.description), required: true,
    options: spec.runner && !known ? [...options, { value: spec.runner, label: spec.runner }] : options };
  const field = (/** @type {any} */ one, /** @type {string} */ wrong) => html`<${FieldOf} field=${one} own=${spec[one.name]} set=${(/** @type {any} */ value) => change({ ...spec, [one.name]: value ?? "" })}
    place=${one.name} errors=${errors} all=${all} id=${`agent-${one.name}`} disabled=${disabled} touch=${() => {}} wrong=${errors.get(one.name) ?? (all && !spec[one.name] ? wrong : undefined)} />`;
  return html`
    <section class="card">
      <div class="schema-form">
        ${fresh && field(name, t("form.required"))}
        ${field(runner, t("form.required"))}
      </div>
    </section>
    ${spec.runner && html`<section class="card">
      <h2>${t("agents.field.config")}</h2>
      <${Settings} spec=${spec} change=${change} manifest=${manifest} errors=${errors} all=${all} disabled=${disabled} />
    </section>`}
    <${Fold} card title=${html`<h3>${t("agents.field.prompts")}</h3>`} open=${[...errors.keys()].some((place) => place.startsWith("prompts"))}>
      <${SchemaForm} fields=${promptFields()} values=${spec} change=${change} errors=${errors} all=${all} disabled=${disabled} id="agent" />
    </${Fold}>
    <${Fold} card title=${html`<h3>${t("agents.field.metadata")}</h3>`}>
      <${SchemaForm} fields=${[{ name: "metadata", kind: "json", label: t("agents.field.metadata"), help: t("agents.help.metadata"), required: false, fallback: {} }]}
        values=${spec} change=${change} errors=${errors} all=${all} disabled=${disabled} id="agent" />
    </${Fold}>
  `;
}

/** @param {{spec: any, change: (spec: any) => void, manifest: any, errors: Mistakes, all: boolean, disabled: boolean}} props */
function Settings({ spec, change, manifest, errors, all, disabled }) {
  if (manifest === null) return html`<${Loading} />`;
  const set = (/** @type {any} */ config) => change({ ...spec, config });
  if (manifest instanceof Error) {
    return html`
      <p class="wrong" dir="auto">${t("agents.no_form", { reason: reasonOf(manifest) })}</p>
      <${SchemaForm} fields=${[{ name: "config", kind: "json", label: t("agents.field.config"), help: "", required: false, fallback: {} }]}
        values=${spec} change=${(/** @type {any} */ next) => set(next.config ?? {})} errors=${errors} all=${all} disabled=${disabled} id="config" />`;
  }
  const fields = fieldsOfRunner(manifest.config_schema);
  const names = new Set(fields.map((field) => field.name));
  const strays = Object.keys(spec.config).filter((name) => !names.has(name) && name !== "timeout");
  return html`
    ${fields.length === 0 && html`<p class="dim">${t("agents.no_settings")}</p>`}
    <${SchemaForm} fields=${fields} values=${spec.config} change=${set} place="config" errors=${errors} all=${all} disabled=${disabled} id="config" />
    ${strays.map((name) => html`<p key=${name} class="wrong line-of"><span dir="auto">${t("agents.stray", { name })}</span>
      ${!disabled && html`<button type="button" onClick=${() => set(Object.fromEntries(Object.entries(spec.config).filter(([one]) => one !== name)))}>${t("form.remove", { name })}</button>`}</p>`)}
    <p class="help"><a href=${address("plugins", manifest.id.replace(/^plugin:/, "").split("/").slice(0, 2).join("/"))}>${t("agents.about_runner")}</a></p>
  `;
}
