// What fields of a form can be chosen from: models, tools, secrets; read once a page.
import { signal } from "./html.js";
import { get } from "./api.js";
import { may } from "./session.js";

/** @typedef {{value: string, note: string, type?: string}} Choice */

/** @type {Record<string, [string, string, (item: any) => Choice]>} */
const LISTS = {
  models: ["/v1/models", "models:read", (item) => ({ value: item.model_id, note: item.problem ?? "", type: item.model_type })],
  tools: ["/v1/tools", "plugins:read", (item) => ({ value: item.name, note: item.problem ?? item.description })],
  skills: ["/v1/skills", "plugins:read", (item) => ({ value: item.name, note: item.problem ?? item.description })],
  secrets: ["/v1/secrets", "secrets:read", (item) => ({ value: item.name, note: item.problem ?? "" })],
  agents: ["/v1/agents", "agents:read", (item) => ({ value: item.name, note: item.spec.runner })],
};
const SHOWN = 1000;

/** @type {Map<string, {value: Choice[]}>} */
const known = new Map();

/**
 * What there is of a kind; empty until it is known, and where the key may not read it.
 * @param {string} kind models, tools, skills, secrets or agents
 * @returns {Choice[]}
 */
export function choices(kind) {
  let found = known.get(kind);
  if (!found) {
    found = signal(/** @type {Choice[]} */ ([]));
    known.set(kind, found);
    read(kind, found);
  }
  return found.value;
}

/** Forget what was read: something was added or removed. */
export const forget = () => known.clear();

/** @param {string} kind @param {{value: Choice[]}} into */
async function read(kind, into) {
  const list = LISTS[kind];
  if (!list || !may(list[1])) return;
  try {
    let items = /** @type {any[]} */ ([]), cursor = null;
    do {
      const page = await get(list[0], { cursor });
      items = [...items, ...page.items];
      cursor = page.next_cursor;
    } while (cursor && items.length < SHOWN);
    into.value = items.map(list[2]);
  } catch {
    known.delete(kind); // the field takes what is typed, and the next page asks again
  }
}
