// One agent: its form, policy, bindings and versions, changed together and saved as one version.
import { html, useEffect, useMemo, useRef, useState } from "../lib/html.js";
import { forgetDraft, keep, kept, whole } from "../lib/agent_draft.js";
import { Problem, Unreachable, get, path, post, request } from "../lib/api.js";
import { t } from "../lib/i18n.js";
import { address, go } from "../lib/router.js";
import { may, session } from "../lib/session.js";
import { mistakesOf } from "../lib/schema_check.js";
import { fieldsOfRunner, same } from "../lib/schema_fields.js";
import { AgentBindings } from "./agent_bindings.js";
import { AgentEditor, useManifest, useRunners } from "./agent_editor.js";
import { AgentHead } from "./agent_head.js";
import { AgentPolicy } from "./agent_policy.js";
import { AgentRaw } from "./agent_raw.js";
import { Conflict, Mistakes, Problems, tabOfPlace } from "./agent_notes.js";
import { lazy } from "./lazy.js";
import { notice } from "./notice.js";
import { Failure, Loading, reasonOf } from "./states.js";
import { Tabs, tabOf } from "./tabs.js";

const AgentVersions = lazy(() => import("./agent_versions.js").then((module) => module.AgentVersions));
const AgentTry = lazy(() => import("./agent_try.js").then((module) => module.AgentTry));

/** @typedef {import("../lib/live_agents.js").Agent} Agent */

const AGAIN_MS = 10_000;
const TABS = ["edit", "policy", "bindings", "versions", "raw"];
const TABS_OF_NEW = TABS.slice(0, 3);

/** `name` "": a new agent. @param {{name: string, runner?: string}} props */
export function AgentPage({ name, runner = "" }) {
  const workspace = session.value?.workspace_id ?? "";
  const fresh = name === "";
  const before = useMemo(() => kept(workspace, name), [name]);
  const [saved, setSaved] = useState(/** @type {Agent | null} */ (null));
  const [theirs, setTheirs] = useState(/** @type {Agent | null} */ (null));
  const [spec, setSpec] = useState(/** @type {any} */ (fresh ? before?.spec ?? whole({ name: "", runner, event_types: [] }) : before?.spec ?? null));
  const [failure, setFailure] = useState(/** @type {unknown} */ (null));
  const [wrong, setWrong] = useState(/** @type {Map<string, string>} */ (new Map()));
  const [all, setAll] = useState(false);
  const [busy, setBusy] = useState(false);
  const [away, setAway] = useState(false);
  const base = useRef(before?.version ?? 0);
  const manifest = useManifest(spec?.runner ?? ""), runners = useRunners();
  const write = may("agents:write");
  const current = useRef(/** @type {any} */ (null));
  current.current = { spec, saved };

  /** Take what is stored: as it is where nothing was changed here, else beside it. @param {Agent} agent */
  const take = (agent) => {
    const { spec: mine, saved: known } = current.current;
    const stored = { ...agent, spec: whole(agent.spec) };
    if (agent.version < base.current && known) return; // read before the change that is saved
    const unchanged = mine === null || (known && same(mine, known.spec)) || same(mine, stored.spec);
    if (unchanged || base.current === agent.version) {
      base.current = agent.version;
      if (unchanged) setSpec(stored.spec);
      setSaved(stored);
      setTheirs(null);
    } else {
      setSaved((now) => now ?? stored);
      setTheirs(stored);
    }
  };
  useEffect(() => {
    if (fresh) return;
    const abort = new AbortController();
    const read = () => get(path("agents", name), {}, abort.signal).then((found) => (setAway(false), take(found)), (error) => {
      setAway(error instanceof Unreachable);
      if (!abort.signal.aborted && (!current.current.saved || (error instanceof Problem && error.status === 404))) setFailure(error);
    });
    read();
    const look = () => document.hidden || read();
    const clock = setInterval(look, AGAIN_MS);
    document.addEventListener("visibilitychange", look, { signal: abort.signal });
    return () => (clearInterval(clock), abort.abort());
  }, [name]);

  const form = manifest && !(manifest instanceof Error) ? manifest.config_schema : null;
  const dirty = spec !== null && (fresh ? Boolean(spec.name || spec.runner !== runner || Object.keys(spec.config).length) : saved !== null && !same(spec, saved.spec));
  useEffect(() => {
    if (dirty && write) keep(workspace, name, { version: base.current, spec }, saved?.spec, form);
    else if (saved || fresh) forgetDraft(workspace, name);
  }, [spec, dirty, form]);

  if (failure && !saved) return html`<${Failure} error=${failure} retry=${() => location.reload()} />`;
  if (failure) return html`<${Failure} title=${t("agents.gone", { name })} error=${failure} />`;
  if (spec === null || (!fresh && saved === null)) return html`<${Loading} />`;

  const change = (/** @type {any} */ next) => {
    const made = whole(next);
    current.current = { ...current.current, spec: made };
    setSpec(made);
    setWrong(new Map());
  };
  const discard = () => {
    setAll(false);
    setWrong(new Map());
    if (fresh) return go("/agents");
    const stored = /** @type {Agent} */ (theirs ?? saved);
    base.current = stored.version;
    setSaved(stored);
    setTheirs(null);
    setSpec(stored.spec);
  };
  /** @param {number} [version] of which it is the change @returns {Promise<boolean>} */
  const save = async (version = base.current) => {
    setAll(true);
    const own = form ? mistakesOf(fieldsOfRunner(form), spec.config, "config") : new Map();
    for (const key of ["name", "runner"]) if (!spec[key]) own.set(key, t("form.required"));
    if (own.size) return setWrong(own), focusFirst(), false;
    setBusy(true);
    try {
      const made = fresh ? await post("/v1/agents", spec) : await request("PUT", path("agents", name), { body: spec, query: { version } });
      const stored = { ...made, spec: whole(made.spec) };
      base.current = stored.version;
      setAll(false);
      setWrong(new Map());
      setTheirs(null);
      forgetDraft(workspace, name);
      if (fresh) go(address("agents", stored.name), { replace: true });
      else {
        setSaved(stored);
        setSpec(stored.spec);
      }
      notice(t("agents.saved", { version: stored.version }));
      return true;
    } catch (error) {
      const errors = error instanceof Problem ? error.details.errors : null;
      if (errors) setWrong(new Map(errors.map((/** @type {any} */ one) => [one.field, one.expected]))), focusFirst();
      else if (error instanceof Problem && error.code === "conflict" && !fresh) get(path("agents", name)).then(take, setFailure);
      else notice(reasonOf(error), true);
      return false;
    } finally {
      setBusy(false);
    }
  };
  const tabs = fresh ? TABS_OF_NEW : TABS, tab = tabOf(tabs);
  const parts = { spec, change, errors: wrong, all, disabled: !write || busy };
  const submit = (/** @type {Event} */ event) => (event.preventDefault(), void save());
  const bar = write && (dirty || fresh) && html`<${SaveBar} busy=${busy} fresh=${fresh} discard=${discard} />`;
  const tryable = !fresh && may("events:write") && may("runs:read");
  return html`
    <${AgentHead} away=${away} agent=${saved} fresh=${fresh} dirty=${dirty} write=${write} took=${take} />
    <${Tabs} label=${t("agents.tabs")} tabs=${tabs.map((one) => ({ name: one, label: t(`agents.tab.${one}`) }))} />
    ${!write && html`<p class="note">${t("agents.no_right")}</p>`}
    ${saved?.made_by === "config file" && write && tab !== "versions" && tab !== "raw" && html`<p class="note">${t("agents.from_file")}</p>`}
    ${theirs && html`<${Conflict} mine=${saved} theirs=${theirs} discard=${discard} over=${() => save(theirs.version)} />`}
    <${Mistakes} wrong=${wrong} />
    ${saved && !dirty && html`<${Problems} problems=${(saved.problems ?? []).filter((one) => tab === "edit" || tab === tabOfPlace(one.place))} />`}
    <div class=${tab === "edit" && tryable ? "two-up" : ""}>
      ${(tab === "edit" || tab === "policy") && html`<form onSubmit=${submit} noValidate>
        ${tab === "edit" ? html`<${AgentEditor} ...${parts} manifest=${manifest} runners=${runners} fresh=${fresh} />` : html`<${AgentPolicy} ...${parts} />`}
        ${bar}
      </form>`}
      ${tab === "edit" && tryable && html`<${AgentTry} name=${name} enabled=${spec.enabled} version=${saved?.version ?? 1} save=${dirty && write ? () => save() : null} />`}
    </div>
    ${tab === "bindings" && html`<${AgentBindings} ...${parts} dirty=${dirty} /><form onSubmit=${submit}>${bar}</form>`}
    ${tab === "versions" && saved && html`<${AgentVersions} agent=${saved} write=${write} saved=${take} />`}
    ${tab === "raw" && saved && html`<${AgentRaw} name=${name} version=${saved.version} />`}
  `;
}

/** @param {{busy: boolean, fresh: boolean, discard: () => void}} props */
const SaveBar = ({ busy, fresh, discard }) => html`
  <div class="save-bar" role="region" aria-label=${t("agents.unsaved")}>
    <span class="grow">${fresh ? "" : t("agents.unsaved")}</span>
    <button type="button" onClick=${discard}>${t(fresh ? "agents.cancel" : "agents.discard")}</button>
    <button class="primary" disabled=${busy}>${t(fresh ? "agents.create" : "agents.save")}</button>
  </div>
`;

/** Where the first mistake is, once it is shown. */
function focusFirst() {
  setTimeout(() => {
    const first = /** @type {HTMLElement | null} */ (document.querySelector(".mistakes"));
    first?.focus();
  }, 50);
}
