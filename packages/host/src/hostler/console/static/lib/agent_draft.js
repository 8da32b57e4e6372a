// A changed agent that is not saved yet: kept for this tab, never with a secret.
import { DEFAULTS } from "./agent_fields.js";
import { session } from "./session.js";

/** @typedef {import("./live_agents.js").Agent} Agent */
/** @typedef {{version: number, spec: any}} Draft */

const HIDDEN = "***";
const REFERENCE = /^(env:|file:|secret:\/\/)/;

/** A specification with all fields. @param {any} spec */
export function whole(spec) {
  const found = { ...DEFAULTS, ...spec };
  for (const name of ["resource_policy", "state_policy", "delivery_policy", "concurrency", "recovery", "scope"]) {
    found[name] = { .../** @type {any} */ (DEFAULTS)[name], ...spec?.[name] };
  }
  for (const name of ["budget", "rate", "quota"]) {
    found.resource_policy[name] = { .../** @type {any} */ (DEFAULTS.resource_policy)[name], ...spec?.resource_policy?.[name] };
  }
  return structuredClone(found);
}

/** @param {string} workspace @param {string} name */
const keyOf = (workspace, name) => `hostler-agent ${workspace} ${session.value?.subject} ${name}`;

/**
 * Keep a draft, without secrets that were typed: what they were before is kept in their place. Of a runner whose
 * form is not known any setting may be one.
 * @param {string} workspace @param {string} name "" for a new agent @param {Draft} draft @param {any} saved
 * @param {any[] | null} form `config_schema` of the runner
 */
export function keep(workspace, name, draft, saved, form) {
  const secret = new Set((form ?? []).filter((item) => item.type === "secret").map((item) => item.name));
  const config = Object.fromEntries(
    Object.entries(draft.spec.config).flatMap(([key, value]) => {
      const plain = form && !secret.has(key) && form.some((item) => item.name === key);
      if (plain || value === HIDDEN || (typeof value === "string" && REFERENCE.test(value))) return [[key, value]];
      return saved?.config && key in saved.config ? [[key, saved.config[key]]] : [];
    }),
  );
  try {
    sessionStorage.setItem(keyOf(workspace, name), JSON.stringify({ version: draft.version, spec: { ...draft.spec, config } }));
  } catch {
    // full or forbidden: the draft lives as long as the page
  }
}

/** @param {string} workspace @param {string} name @returns {Draft | null} */
export function kept(workspace, name) {
  try {
    const found = JSON.parse(sessionStorage.getItem(keyOf(workspace, name)) ?? "null");
    return found && typeof found.spec === "object" ? { version: found.version, spec: whole(found.spec) } : null;
  } catch {
    return null;
  }
}

/** @param {string} workspace @param {string} name */
export const forgetDraft = (workspace, name) => sessionStorage.removeItem(keyOf(workspace, name));
