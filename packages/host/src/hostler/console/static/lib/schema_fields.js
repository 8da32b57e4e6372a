// Forms of runners, of questions, and JSON Schema, as one kind of field: pure.
import { said } from "./i18n.js";

/**
 * @typedef {{value: any, label: string}} Option
 * @typedef {{name: string, kind: string, label: string, help: string, required: boolean, fallback?: any,
 *   options?: Option[], minimum?: number, maximum?: number, above?: number, below?: number, step?: number,
 *   minLength?: number, maxLength?: number, pattern?: string, nullable?: boolean, fields?: Field[], items?: Field,
 *   showIf?: Record<string, any> | null, oneLine?: boolean, unit?: string, blank?: string, from?: string, suggest?: string[],
 *   secret?: boolean, references?: boolean, literal?: "runner" | "schema"}} Field
 * `kind`: line, text, integer, number, boolean, select, multiselect, names, secret, file, files, prompt, model,
 *   model-fallback, rerank, knowledge, tools, object, list, map, json.
 * `fallback`: the value that holds without one. `fields`: of an object. `items`: of a list or map.
 * `names`: a list of texts; `blank` says what no list means, `from` (a kind of lib/choices.js) or `suggest` what it may name. `nullable`: null is a value of its own.
 * `secret`: what is typed there is kept nowhere, whatever its kind. `references`: of a secret nothing but where it is can be given.
 * `literal`: a form in which spaces and empty lists are answers (`schema`: an empty text too).
 */

/** Text that is no value of its field yet, such as `1e`; kept so that nothing typed is lost. */
const UNFINISHED = "$unfinished";
/** @param {string} text */
export const unfinished = (text) => ({ [UNFINISHED]: text });
/** @param {any} value @returns {string | null} */
export const unfinishedText = (value) =>
  value !== null && typeof value === "object" && typeof value[UNFINISHED] === "string" ? value[UNFINISHED] : null;

/** What stands for no value: null where that is one. @param {Field} field */
export const noneOf = (field) => (field.nullable ? null : undefined);

export const MAX_LINE_CHARS = 10_000;
export const MAX_TEXT_CHARS = 262_144;

/** @type {Record<string, string>} */
const RUNNER_KINDS = {
  string: "line", text: "text", integer: "integer", float: "number", boolean: "boolean", select: "select",
  multiselect: "multiselect", secret: "secret", file: "file", "array[file]": "files", "prompt-editor": "prompt",
  "llm-model-selector": "model", "select-llm-model": "model", "model-fallback-selector": "model-fallback",
  "rerank-model-selector": "rerank", "knowledge-base-multi-selector": "knowledge", "select-knowledge-bases": "knowledge",
  "tool-multi-selector": "tools", json: "json",
};

/**
 * The form of a runner: `config_schema` of its manifest.
 * @param {any[]} items
 * @returns {Field[]}
 */
export const fieldsOfRunner = (items) =>
  items.map((item) => ({
    name: item.name, kind: RUNNER_KINDS[item.type] ?? "json", label: said(item.label) || item.name,
    help: said(item.description), required: Boolean(item.required), fallback: item.default ?? undefined,
    // a select without options takes any value
    ...(/select$/.test(item.type) && (item.options ? { options: optionsOf(item.options) } : { kind: "json" })),
    showIf: item.show_if, literal: "runner",
  }));

/**
 * The form of a question that a run asks (`FormField`).
 * @param {any[]} fields
 * @returns {Field[]}
 */
export const fieldsOfQuestion = (fields) =>
  fields.map((field) => ({
    name: field.name, kind: field.type === "text" ? "line" : field.type === "textarea" ? "text" : field.type,
    label: said(field.label) || field.name, help: said(field.description), required: Boolean(field.required),
    fallback: field.default ?? undefined, options: optionsOf(field.options ?? []),
    oneLine: field.type === "text",
    maxLength: field.type === "text" ? MAX_LINE_CHARS : field.type === "textarea" ? MAX_TEXT_CHARS : undefined,
  }));

/** @param {any[]} options @returns {Option[]} */
const optionsOf = (options) =>
  options.map((option) => {
    const mapping = option !== null && typeof option === "object" && !Array.isArray(option);
    const value = mapping ? ("value" in option ? option.value : "name" in option ? option.name : option) : option;
    const shown = mapping ? said(option.label) : "";
    return { value, label: shown || (typeof value === "string" ? value : JSON.stringify(value)) };
  });

/**
 * The properties of a JSON Schema object. What no field can show is a JSON field.
 * @param {any} schema
 * @returns {Field[]}
 */
export function fieldsOfSchema(schema) {
  const found = fieldOf("", schema ?? {}, true, schema ?? {}, 0);
  const fields = found.kind === "object" ? found.fields ?? [] : [];
  return hasSecret(schema) ? fields.map(guarded) : fields;
}

/** Whether a schema says of any value that it is a secret. @param {any} schema */
export const hasSecret = (schema) => /"(writeOnly":true|format":"password")/.test(JSON.stringify(schema ?? {}));

/** What no field can show may have a secret anywhere within. @param {Field} field @returns {Field} */
const guarded = (field) => ({
  ...field,
  ...(field.kind === "json" && { secret: true }),
  ...(field.fields && { fields: field.fields.map(guarded) }),
  ...(field.items && { items: guarded(field.items) }),
});

/** Whether a field, or one within it, takes a secret. @param {Field} field @returns {boolean} */
export const isSecret = (field) =>
  field.kind === "secret" || Boolean(field.secret || field.fields?.some(isSecret) || (field.items && isSecret(field.items)));

/** Values of a form without those of its secret fields. @param {Field[]} fields @param {Record<string, any>} values */
export function withoutSecrets(fields, values) {
  const secret = new Set(fields.filter(isSecret).map((field) => field.name));
  return Object.fromEntries(Object.entries(values).filter(([name]) => !secret.has(name)));
}

const DEEPEST = 8;

/** @param {string} name @param {any} given @param {boolean} required @param {any} root @param {number} depth @returns {Field} */
function fieldOf(name, given, required, root, depth) {
  const { schema, nullable } = plain(given, root);
  const field = /** @type {Field} */ ({
    name, kind: "json", label: said(schema.title) || name, help: said(schema.description), required, nullable, literal: "schema",
    ...(schema.writeOnly && { secret: true }),
    ...("default" in schema && schema.default !== null && { fallback: schema.default }),
  });
  const choices = "const" in schema ? [schema.const] : schema.enum;
  const kinds = [schema.type ?? (schema.properties ? "object" : undefined)].flat().filter((kind) => kind !== "null");
  if (depth > DEEPEST) return field;
  if (Array.isArray(choices)) return { ...field, kind: "select", options: optionsOf(choices.filter((one) => one !== null || !nullable)) };
  switch (kinds.length === 1 ? kinds[0] : "") {
    case "string": {
      const long = schema.maxLength === undefined ? /text|body|content|markdown|code|prompt/i.test(`${name} ${schema.contentMediaType ?? ""}`) : schema.maxLength > 300;
      return { ...field, kind: schema.format === "password" || schema.writeOnly ? "secret" : long ? "text" : "line", minLength: schema.minLength, maxLength: schema.maxLength, pattern: schema.pattern };
    }
    case "integer":
    case "number":
      return { ...field, kind: kinds[0], minimum: schema.minimum, maximum: schema.maximum, above: schema.exclusiveMinimum, below: schema.exclusiveMaximum, step: schema.multipleOf };
    case "boolean":
      return { ...field, kind: "boolean" };
    case "array": {
      if (Array.isArray(schema.items) || schema.prefixItems) return field;
      const items = fieldOf("", schema.items ?? {}, true, root, depth + 1);
      if (items.kind === "select" && schema.uniqueItems) return { ...field, kind: "multiselect", options: items.options };
      return { ...field, kind: "list", items, minimum: schema.minItems, maximum: schema.maxItems };
    }
    case "object": {
      const needed = new Set(schema.required ?? []);
      const named = Object.entries(schema.properties ?? {});
      if (named.length) return { ...field, kind: "object", fields: named.map(([key, one]) => fieldOf(key, one, needed.has(key), root, depth + 1)) };
      const rest = schema.additionalProperties;
      return rest && typeof rest === "object" ? { ...field, kind: "map", items: fieldOf("", rest, true, root, depth + 1) } : field;
    }
    default:
      return field;
  }
}

/** A schema without references, and without `null` beside one other type. @param {any} given @param {any} root */
function plain(given, root) {
  let schema = given === true || given === null || typeof given !== "object" ? {} : given, nullable = false;
  for (let steps = 0; steps < 2 * DEEPEST; steps++) {
    if (typeof schema.$ref === "string" && schema.$ref.startsWith("#/")) {
      const { $ref, ...beside } = schema;
      const found = $ref.slice(2).split("/").reduce((/** @type {any} */ at, /** @type {string} */ key) => at?.[key.replaceAll("~1", "/").replaceAll("~0", "~")], root);
      schema = { ...(typeof found === "object" ? found : {}), ...beside };
      continue;
    }
    const either = schema.anyOf ?? schema.oneOf;
    const others = Array.isArray(either) ? either.filter((/** @type {any} */ one) => one?.type !== "null") : [];
    if (others.length !== 1 && !(schema.allOf?.length === 1)) break;
    nullable ||= Array.isArray(either) && others.length < either.length;
    const { anyOf, oneOf, allOf, ...beside } = schema;
    schema = { ...(others[0] ?? allOf[0]), ...beside };
  }
  nullable ||= Array.isArray(schema.type) && schema.type.includes("null");
  return { schema, nullable };
}

/** Whether two JSON values are equal; the order of keys does not matter. @param {any} a @param {any} b @returns {boolean} */
export function same(a, b) {
  if (a === b) return true;
  if (a === null || b === null || typeof a !== "object" || typeof b !== "object" || Array.isArray(a) !== Array.isArray(b)) return false;
  const names = Object.keys(a).filter((name) => a[name] !== undefined);
  return names.length === Object.keys(b).filter((name) => b[name] !== undefined).length && names.every((name) => same(a[name], b[name]));
}

/**
 * The place of a key within another, as the host names it in its mistakes: `config.model`, `tool_approval["a.b"]`.
 * @param {string} place @param {string} key
 */
export function placeOf(place, key) {
  if (!/^[\p{L}\p{N}_-]+$/u.test(key)) return `${place}[${JSON.stringify(key)}]`;
  return place ? `${place}.${key}` : key;
}
