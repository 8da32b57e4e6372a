// The entries of models and tools in the configuration: added, changed, removed.
import { html } from "../lib/html.js";
import { address, go } from "../lib/router.js";
import { modelFields, modelName, moreModelFields, moreToolFields, toolEntry, toolFields, toolName, toolValues } from "../lib/resource_fields.js";
import { SourceEntry } from "./source_entry.js";

const MODEL = { naming: modelName, nameOf: (/** @type {any} */ values) => values.id };

/** @param {{name?: string, done: (name: any) => void}} props */
export const ModelEntry = ({ name, done }) => html`<${SourceEntry} kind="models" name=${name} fields=${modelFields} more=${moreModelFields} shape=${MODEL} done=${done} />`;

/** @param {any} values */
const keyOf = (values) => `${values.kind}:${values.name}`;

/** The page of an entry: that of its server, or the entry alone. @param {string} key */
export const addressOf = (key) => (key.startsWith("mcp:") ? address("mcp-servers", key.slice(4)) : alone(key));

/** The page of an entry alone: one that cannot be read has no server. @param {string} key */
export const alone = (key) => `/tools?${new URLSearchParams({ source: key })}`;

/**
 * `begin`: of which kind a new entry is at first. `done`: after a new one its page is opened.
 * @param {{name?: string, begin?: string, done?: (name: any) => void}} props
 */
export const ToolEntry = ({ name, begin = "openapi", done = (made) => go(addressOf(made), { replace: true }) }) => html`<${SourceEntry}
  kind="tools" name=${name} draft=${begin} begin=${{ kind: begin, ...(begin === "mcp" && { command: [""] }) }} fields=${toolFields} more=${moreToolFields} done=${done}
  shape=${{ naming: () => toolName(begin), nameOf: keyOf, read: toolValues, write: toolEntry, within: (/** @type {any} */ values) => values.kind }} />`;
