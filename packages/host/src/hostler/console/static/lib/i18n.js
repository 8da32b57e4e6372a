// Texts in the language of the reader, from locales/*.json, of which the host serves parts: console/text_parts.py.
import { Unreachable } from "./api.js";
import { signal } from "./html.js";

const NAMES = { en: "English", zh: "中文" };
const KEPT = "hostler-language";

/** What is said before the texts are there. @type {Record<string, string>} */
let texts = {
  "state.failed": "That did not work / 操作失败",
  "state.unreachable": "The host does not answer. / 主机没有响应。",
  "state.retry": "Try again / 重试",
};
let plurals = new Intl.PluralRules("en");
/** The parts that pages have asked for, each with its end. @type {Map<string, Promise<void>>} */
const parts = new Map([["base", Promise.resolve()]]);

/** `en` or `zh`. Components that show texts read it, so that they change with it. */
export const language = signal("en");
export const languages = Object.entries(NAMES);

function preferred() {
  const kept = localStorage.getItem(KEPT);
  for (const one of [kept, ...navigator.languages]) {
    const short = one?.slice(0, 2).toLowerCase();
    if (short && short in NAMES) return short;
  }
  return "en";
}

/** @param {string} chosen @param {Iterable<string>} names @returns {Promise<Record<string, string>>} */
async function fetched(chosen, names) {
  const found = await Promise.all([...names].map(async (name) => {
    const answer = await fetch(new URL(`../locales/${chosen}/${name}.json`, import.meta.url)).catch(() => null);
    if (!answer?.ok) throw new Unreachable(`locales/${chosen}/${name}.json`);
    return answer.json();
  }));
  return Object.assign({}, ...found);
}

/** Load the texts of a language, the reader's own without one. @param {string} [wanted] */
export async function speak(wanted) {
  const chosen = wanted ?? preferred();
  if (wanted) localStorage.setItem(KEPT, wanted);
  /** @type {typeof texts} */
  let found;
  let known;
  do {
    known = parts.size; // a page may ask for more meanwhile
    found = await fetched(chosen, parts.keys());
  } while (known !== parts.size);
  texts = found;
  plurals = new Intl.PluralRules(chosen);
  document.documentElement.lang = chosen === "zh" ? "zh-Hans" : chosen;
  language.value = chosen;
}

/** Load parts of the texts, unless they are there. @param {string[]} names */
export async function loadTexts(names) {
  const missing = names.filter((name) => !parts.has(name));
  const loading = missing.length ? add(missing) : Promise.resolve();
  for (const name of missing) parts.set(name, loading);
  await Promise.all(names.map((name) => parts.get(name)));
}

/** @param {string[]} missing */
async function add(missing) {
  const chosen = language.value;
  try {
    const found = await fetched(chosen, missing);
    if (language.value === chosen) texts = { ...texts, ...found }; // or they came with the language
  } catch (error) {
    for (const name of missing) parts.delete(name);
    throw error;
  }
}

/**
 * A text with its fields filled in: `{name}`. With `count`, the form for that number: `key.one`, `key.other`.
 * @param {string} key @param {Record<string, any>} [fields]
 */
export function t(key, fields = {}) {
  void language.value;
  let found = texts[key];
  if ("count" in fields) found = texts[`${key}.${plurals.select(fields.count)}`] ?? texts[`${key}.other`] ?? found;
  if (found === undefined) return key;
  return found.replace(/\{(\w+)\}/g, (whole, name) => (name in fields ? String(fields[name]) : whole));
}

/**
 * What a plugin or a schema says, in the reader's language: a text, or texts by locale (`en`, `zh_Hans`, `en-US`).
 * @param {any} label
 * @returns {string}
 */
export function said(label) {
  if (typeof label === "string") return label;
  if (label === null || typeof label !== "object") return "";
  const wanted = language.value;
  const locales = Object.keys(label).filter((name) => typeof label[name] === "string");
  const of = (/** @type {string} */ short) => locales.find((name) => name.slice(0, 2).toLowerCase() === short);
  const found = of(wanted) ?? of("en") ?? locales[0];
  return found === undefined ? "" : label[found];
}
