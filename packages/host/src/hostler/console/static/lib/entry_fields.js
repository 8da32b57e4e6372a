// What the fields of all entries of the configuration are made with.
import { t } from "./i18n.js";

/** @typedef {import("./schema_fields.js").Field} Field */

/** @param {string} name @param {string} kind @param {Partial<Field>} [more] @returns {Field} */
export const field = (name, kind, more = {}) => ({ name, kind, label: t(`source.field.${name}`), help: t(`source.help.${name}`), required: false, ...more });
/** @param {string} name @param {string[]} values */
export const options = (name, values) => values.map((value) => ({ value, label: t(`source.option.${name}.${value}`) }));
/** One that explains itself. @param {string} name @param {string} kind @param {Partial<Field>} [more] @returns {Field} */
export const bare = (name, kind, more = {}) => ({ name, kind, label: t(`source.field.${name}`), help: "", required: false, ...more });
/** Its label and help are those of another field, or none. @param {string} name @param {string} kind @param {string} label @param {Partial<Field>} [more] @returns {Field} */
export const plain = (name, kind, label, more = {}) => ({ name, kind, label, help: "", required: false, ...more });

/**
 * An entry as it is sent: without what belongs to another choice and is not shown.
 * @param {Record<string, any>} entry @param {Field[]} fields @param {(field: Field) => boolean} isShown
 */
export const withoutHidden = (entry, fields, isShown) => {
  const hidden = new Set(fields.filter((one) => !isShown(one)).map((one) => one.name));
  return Object.fromEntries(Object.entries(entry).filter(([name]) => !hidden.has(name)));
};
