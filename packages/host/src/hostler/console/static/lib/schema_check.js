// What is wrong with the values of a form, by the rules of the host: pure.
import { t } from "./i18n.js";
import { MAX_TEXT_CHARS, placeOf, same, unfinishedText } from "./schema_fields.js";

/** @typedef {import("./schema_fields.js").Field} Field */
/** @typedef {Map<string, string>} Mistakes Sentences by the place of what they are about. */

const NOT_CHOSEN = new Set(["", "__none__", "__none"]);
const SELECTORS = new Set(["model", "model-fallback", "rerank", "knowledge", "tools", "names", "file", "files"]);

/**
 * Whether a field is shown: `{name: value or list of values}` or `{field, operator, value}`.
 * @param {Field} field @param {Record<string, any>} values those of the form, with defaults @param {Field[]} fields
 */
export function isShown(field, values, fields) {
  const wanted = field.showIf;
  if (!wanted || !Object.keys(wanted).length) return true;
  if (typeof wanted.field === "string" && "value" in wanted && !fields.some((one) => one.name === "field")) {
    const actual = values[wanted.field] ?? null;
    if (wanted.operator === "neq") return !same(actual, wanted.value);
    if (wanted.operator === "in") return Array.isArray(wanted.value) && wanted.value.some((/** @type {any} */ one) => same(one, actual));
    return same(actual, wanted.value);
  }
  return Object.entries(wanted).every(([name, value]) => {
    const actual = values[name] ?? null;
    return Array.isArray(value) ? value.some((one) => same(one, actual)) : same(actual, value);
  });
}

/** The values with defaults in place of those left out. @param {Field[]} fields @param {Record<string, any>} values */
export function withDefaults(fields, values) {
  const found = Object.fromEntries(fields.flatMap(({ name, fallback }) => (fallback === undefined ? [] : [[name, fallback]])));
  for (const [name, value] of Object.entries(values)) {
    const asked = value === null && fields.some((field) => field.name === name && !field.literal); // of a question
    if (value !== undefined && !asked) found[name] = value;
  }
  return found;
}

/** Whether a value is no answer. @param {Field} field @param {any} value */
export function isEmpty(field, value) {
  if (value === undefined || value === null) return true;
  if (field.kind === "json") return false;
  if (field.kind === "model-fallback" && typeof value === "object") return NOT_CHOSEN.has(value.primary ?? "");
  if (SELECTORS.has(field.kind) && (Array.isArray(value) ? !value.length : NOT_CHOSEN.has(value))) return true;
  if (field.literal) return field.literal === "runner" && value === "";
  if (field.kind === "multiselect" && Array.isArray(value)) return !value.length;
  return typeof value === "string" && value.trim() === "";
}

/**
 * @param {Field[]} fields @param {Record<string, any>} values @param {string} [place]
 * @returns {Mistakes}
 */
export function mistakesOf(fields, values, place = "") {
  const found = /** @type {Mistakes} */ (new Map()), all = withDefaults(fields, values);
  for (const field of fields) {
    if (!isShown(field, all, fields)) continue;
    check(field, all[field.name], placeOf(place, field.name), found);
  }
  return found;
}

/** @param {Field} field @param {any} value @param {string} place @param {Mistakes} found */
function check(field, value, place, found) {
  const wrong = (/** @type {string} */ text) => void found.set(place, text);
  if (unfinishedText(value) !== null) return wrong(t(field.kind === "json" ? "form.no_json" : field.kind === "integer" ? "form.no_integer" : "form.no_number"));
  if (isEmpty(field, value)) {
    if (value === null && field.literal === "schema" ? !field.nullable : field.required) wrong(t("form.required"));
    return;
  }
  switch (field.kind) {
    case "integer":
    case "number": {
      if (typeof value !== "number" || !Number.isFinite(value)) return wrong(t("form.no_number"));
      if (field.kind === "integer" && !Number.isInteger(value)) return wrong(t("form.no_integer"));
      if (field.minimum !== undefined && value < field.minimum) return wrong(t("form.at_least", { bound: field.minimum }));
      if (field.maximum !== undefined && value > field.maximum) return wrong(t("form.at_most", { bound: field.maximum }));
      if (field.above !== undefined && value <= field.above) return wrong(t("form.above", { bound: field.above }));
      if (field.below !== undefined && value >= field.below) return wrong(t("form.below", { bound: field.below }));
      if (field.step && Math.abs(value / field.step - Math.round(value / field.step)) > 1e-9) return wrong(t("form.step", { step: field.step }));
      return;
    }
    case "line":
    case "text": {
      if (typeof value !== "string") return wrong(t("form.no_text"));
      // the host counts code points
      const length = [...value].length;
      if (value.includes("\0")) return wrong(t("form.nul"));
      if (field.oneLine && /[\r\n]/.test(value)) return wrong(t("form.one_line"));
      if (field.minLength !== undefined && length < field.minLength) return wrong(t("form.shortest", { count: field.minLength }));
      const most = field.maxLength ?? MAX_TEXT_CHARS;
      if (length > most) return wrong(t("form.longest", { count: most, length }));
      if (field.pattern && !fits(field.pattern, value)) return wrong(t("form.pattern", { pattern: field.pattern }));
      return;
    }
    case "boolean":
      if (typeof value !== "boolean") wrong(t("form.no_boolean"));
      return;
    case "select":
      if (!field.options?.some((option) => same(option.value, value))) wrong(t("form.no_option"));
      return;
    case "multiselect":
      if (!Array.isArray(value) || value.some((one) => !field.options?.some((option) => same(option.value, one)))) return wrong(t("form.no_option"));
      if (value.some((one, number) => value.slice(0, number).some((other) => same(one, other)))) wrong(t("form.once"));
      return;
    case "object":
      for (const [at, text] of mistakesOf(field.fields ?? [], value, place)) found.set(at, text);
      return;
    case "list": {
      if (!Array.isArray(value)) return wrong(t("form.no_list"));
      if (field.minimum !== undefined && value.length < field.minimum) wrong(t("form.fewest", { count: field.minimum }));
      if (field.maximum !== undefined && value.length > field.maximum) wrong(t("form.most", { count: field.maximum }));
      value.forEach((one, number) => check(/** @type {Field} */ (field.items), one, `${place}[${number}]`, found));
      return;
    }
    case "map":
      for (const [key, one] of Object.entries(value)) check(/** @type {Field} */ (field.items), one, placeOf(place, key), found);
  }
}

/**
 * Patterns come from plugins, and one could keep the page busy for ever: those that might are left to the host.
 * @param {string} pattern @param {string} value
 */
function fits(pattern, value) {
  const wild = pattern.match(/[*+]|\{\d*,\}/g) ?? [];
  if (pattern.length > 200 || value.length > 1000 || wild.length > 3 || /\)[*+{?]|\\[1-9k]/.test(pattern)) return true;
  try {
    return new RegExp(pattern, "u").test(value);
  } catch {
    return true; // written for another kind of expressions
  }
}
