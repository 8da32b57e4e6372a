// State of a component that this tab keeps over a reload. No secrets.
import { useRef, useState } from "./html.js";
import { changesOf, withChanges } from "./form_changes.js";
import { keep, kept } from "./kept.js";
import { same, withoutSecrets } from "./schema_fields.js";

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

/**
 * @template T
 * @typedef {{values: T, changed: boolean, change: (next: T) => void, set: (name: string, value: any) => void, forget: () => void}} Draft
 * `forget`: the values are those that are stored, and nothing is kept.
 */

/**
 * The values of a form that is saved as a whole: a reload keeps what differs from what is stored, without secrets. What
 * another changed meanwhile in other fields stays.
 * @template {Record<string, any>} T
 * @param {string} name @param {T} stored @param {(values: T) => import("./schema_fields.js").Field[]} fields those of a form with these values
 * @returns {Draft<T>}
 */
export function useDraft(name, stored, fields) {
  const [draft, setDraft] = useState(() => {
    const changes = kept(name);
    return changes ? withChanges(stored, changes) : null;
  });
  const values = draft ?? stored;
  const latest = useRef(values); // a browser fills in several fields at once, before the form is drawn again
  latest.current = values;
  const change = (/** @type {T} */ next) => {
    latest.current = next;
    setDraft(same(stored, next) ? null : next);
    const changes = changesOf(fields(next), stored, next);
    keep(name, changes.length ? changes : undefined);
  };
  return {
    values, changed: draft !== null && !same(stored, draft), change,
    set: (field, value) => change({ ...latest.current, [field]: value }),
    forget: () => (setDraft(null), keep(name, undefined)),
  };
}

/** Whether a form is shown, which it is at first where something of it is kept. @param {string} name */
export const useShown = (name) => useState(() => kept(name) !== undefined);

/** What an input needs to show and change a text of a form. @param {Draft<any>} form @param {string} name */
export const input = (form, name) => ({ name, value: form.values[name], onInput: (/** @type {any} */ event) => form.set(name, event.target.value) });
