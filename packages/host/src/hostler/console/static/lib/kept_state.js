// State of a component that this tab keeps over a reload. No secrets.
import { useState } from "./html.js";
import { keep, kept } from "./kept.js";
import { withoutSecrets } from "./schema_fields.js";

/**
 * State that a reload keeps. Undefined removes it.
 * @template T @param {string} name @param {T} first
 * @param {(value: T) => any} [pack] what of it is kept @param {(found: any) => T} [unpack] the state of what was kept
 * @returns {[T, (value: T | undefined) => void]}
 */
export function useKept(name, first, pack = (value) => value, unpack = (found) => found) {
  const [value, setValue] = useState(() => {
    const found = kept(name);
    return found === undefined || found === null ? first : unpack(found);
  });
  return [
    value,
    (next) => {
      setValue(() => (next === undefined ? first : next));
      keep(name, next === undefined ? undefined : pack(next));
    },
  ];
}

/**
 * Values of a form that a reload keeps, without those of its secret fields: after a reload these are as `before`.
 * @template {Record<string, any> | null} T
 * @param {string} name @param {import("./schema_fields.js").Field[]} fields @param {T} first @param {Record<string, any>} [before]
 */
export function useKeptForm(name, fields, first, before = {}) {
  const plain = withoutSecrets(fields, before);
  const secrets = Object.fromEntries(Object.entries(before).filter(([key]) => !(key in plain)));
  return useKept(name, first, (values) => values && withoutSecrets(fields, values), (found) => ({ ...secrets, ...found }));
}
