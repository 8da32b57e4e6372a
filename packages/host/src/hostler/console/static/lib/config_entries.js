// Entries of the configuration: who made one, what the host says is wrong with it, and what misses one that is removed.
import { Problem, get, path, remove } from "./api.js";
import { reasonOf } from "../components/states.js";

const FILE = "config file";
/** @type {Record<string, string>} */
export const KINDS = { hooks: "hook", channels: "channel", models: "model", tools: "tool", skills: "skill" };

/** Whether an entry is as the configuration file of the server says: it changed it last. @param {string} kind @param {string} name @param {AbortSignal} [signal] */
export async function isOfFile(kind, name, signal) {
  const facts = await Promise.all(["added", "changed"].map((what) =>
    get("/v1/audit", { action: `${KINDS[kind]}.${what}`, target: name, limit: 1 }, signal).then((page) => page.items[0], () => null)));
  return facts.filter(Boolean).sort((a, b) => b.seq - a.seq)[0]?.actor === FILE;
}

/** @typedef {{at: Map<string, string>, rest: string[]}} Wrong The mistakes by place, and those of no field that is shown. */

/** The mistakes of an answer. @param {unknown} error @param {Set<string>} shown @param {string} [within] the part of the entry that has the fields @returns {Wrong} */
export function wrongOf(error, shown, within = "") {
  const at = new Map(), rest = /** @type {string[]} */ ([]);
  const errors = error instanceof Problem && Array.isArray(error.details.errors) ? error.details.errors : [];
  for (const one of errors) {
    const named = one.at || one.field || "", place = within && named.startsWith(`${within}.`) ? named.slice(within.length + 1) : named;
    if (shown.has(place.split(/[.[]/)[0])) at.set(place, one.expected);
    else rest.push(place ? `${place}: ${one.expected}` : one.expected);
  }
  return { at, rest: errors.length ? rest : [reasonOf(error)] };
}

/** @param {Wrong} wrong @param {string} place @returns {Wrong} */
export const without = ({ at, rest }, place) => ({ at: new Map([...at].filter(([one]) => one !== place && !one.startsWith(`${place}.`) && !one.startsWith(`${place}[`))), rest });

/** @param {any} one */
const sentence = (one) => (one.place ? `${one.place}: ${one.problem}` : one.problem);

/** The problems of an entry after a change. @param {any} diff @param {string} kind @param {string} name @returns {string[]} */
export const problemsOf = (diff, kind, name) => diff.problems.filter((/** @type {any} */ one) => one.kind === KINDS[kind] && one.name === name).map(sentence);

/** Remove an entry, and return what does not work any more without it. @param {string} kind @param {string} name @returns {Promise<string[]>} */
export async function removeEntry(kind, name) {
  const known = new Set((await get("/v1/problems")).items.map(whole));
  const diff = await remove(path("config", kind, name)); // null: its answer was lost on the way
  const problems = diff ? diff.problems : (await get("/v1/problems")).items;
  return problems.map(whole).filter((/** @type {string} */ text) => !known.has(text));
}

/** @param {any} one */
const whole = (one) => `${one.kind} ${one.name}: ${sentence(one)}`;
