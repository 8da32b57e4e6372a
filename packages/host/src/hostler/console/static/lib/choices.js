// What fields of a form can be chosen from: models, tools, secrets; kept for half a minute.
import { signal } from "./html.js";
import { get } from "./api.js";
import { may } from "./session.js";

/** @typedef {{value: string, note: string, type?: string}} Choice */

/** @type {Record<string, [string, string, (item: any) => Choice]>} */
const LISTS = {
  models: ["/v1/models", "models:read", (item) => ({ value: item.model_id, note: item.problem ?? "", type: item.model_type })],
  tools: ["/v1/tools", "plugins:read", (item) => ({ value: item.name, note: item.problem ?? item.description })],
  skills: ["/v1/skills", "plugins:read", (item) => ({ value: item.name, note: item.problem ?? item.description })],
  knowledge: ["/v1/knowledge", "knowledge:read", (item) => ({ value: item.kb_id, note: item.name || item.description })],
  secrets: ["/v1/secrets", "secrets:read", (item) => ({ value: item.name, note: item.problem ?? "" })],
  agents: ["/v1/agents", "agents:read", (item) => ({ value: item.name, note: item.spec.runner })],
};
const SHOWN = 1000;

const FRESH_MS = 30_000;
const AGAIN_MS = 5_000;

/** @type {Map<string, {list: {value: Choice[]}, at: number, read?: boolean}>} */
const known = new Map();

/**
 * What there is of a kind; empty until it is known, and where the key may not read it.
 * @param {string} kind models, tools, skills, knowledge, secrets or agents
 * @returns {Choice[]}
 */
export function choices(kind) {
  const found = known.get(kind) ?? { list: signal(/** @type {Choice[]} */ ([])), at: 0 };
  known.set(kind, found);
  if (Date.now() - found.at > FRESH_MS) {
    found.at = Date.now();
    read(kind, found);
  }
  return found.list.value;
}

/** What there is of a kind has changed: it is read again. @param {string} kind */
export function forgetChoices(kind) {
  const found = known.get(kind);
  if (found) found.at = 0;
}

/** Whether there is nothing of a kind, which is known. @param {string} kind */
export const hasNone = (kind) => choices(kind).length === 0 && Boolean(known.get(kind)?.read);

/** @param {string} kind @param {{list: {value: Choice[]}, at: number, read?: boolean}} into */
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
    into.read = true;
    into.list.value = items.map(list[2]);
  } catch {
    into.at -= FRESH_MS - AGAIN_MS; // the field takes what is typed
  }
}
