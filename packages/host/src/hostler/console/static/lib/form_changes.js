// What of a form was changed, as it may be kept, and put over what is stored by then: pure.
import { isSecret, same } from "./schema_fields.js";

/** @typedef {import("./schema_fields.js").Field} Field */
/** @typedef {[path: string[], value?: any]} Change Without a value: it was taken away. */

/** @param {any} value */
const isMapping = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

/**
 * What differs in the fields of a form. What takes a secret, or is no field of it, is left out.
 * @param {Field[]} fields @param {Record<string, any>} before @param {Record<string, any>} after @param {string[]} [path]
 * @returns {Change[]}
 */
export function changesOf(fields, before, after, path = []) {
  return fields.flatMap((field) => {
    const own = [...path, field.name], old = before[field.name], value = after[field.name];
    if (same(old, value)) return [];
    if (field.fields && !field.secret && isMapping(value)) return changesOf(field.fields, isMapping(old) ? old : {}, value, own);
    if (isSecret(field)) return [];
    return /** @type {Change[]} */ ([value === undefined ? [own] : [own, value]]);
  });
}

/** @template {Record<string, any>} T @param {T} before @param {Change[]} changes @returns {T} */
export function withChanges(before, changes) {
  const made = structuredClone(before);
  for (const [path, ...value] of changes) {
    const last = /** @type {string} */ (path.at(-1));
    let at = /** @type {Record<string, any>} */ (made);
    for (const key of path.slice(0, -1)) {
      if (!isMapping(at[key])) at[key] = {};
      at = at[key];
    }
    if (value.length) at[last] = value[0];
    else delete at[last];
  }
  return made;
}

/** Fields that hold no secret, of a form that is not made from fields. @param {string[]} names @returns {Field[]} */
export const plainFields = (names) => names.map((name) => ({ name, kind: "line", label: "", help: "", required: false }));
