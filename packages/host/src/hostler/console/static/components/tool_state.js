// The state, effect class and approval of a tool, each a word with a colour.
import { html } from "../lib/html.js";
import { t } from "../lib/i18n.js";

/** @type {Record<string, string>} */
const STATES = { ok: "good", down: "waits", waiting: "waits", refused: "bad" };
/** @type {Record<string, string>} */
const EFFECTS = { pure: "good", idempotent: "works", reconcilable: "works", default: "waits" };

/** @param {{tool: {state: string}}} props */
export const ToolState = ({ tool }) => html`<span class="status ${STATES[tool.state] ?? "dim"}">${t(`tool_state.${tool.state}`)}</span>`;

/** @param {{effect: string}} props */
export const Effect = ({ effect }) => html`<span class="status ${EFFECTS[effect] ?? "dim"}" title=${t(`effect_help.${effect}`)}>${t(`effect.${effect}`)}</span>`;
