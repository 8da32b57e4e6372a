// The state of a plugin's process, in a word and a colour.
import { html } from "../lib/html.js";
import { t } from "../lib/i18n.js";

/** @type {Record<string, string>} */
const KINDS = { ready: "good", failed: "bad", disconnected: "waits", waiting: "waits", starting: "works", stopped: "dim" };

/** @param {{plugin: {state: string}}} props */
export const PluginState = ({ plugin }) => html`
  <span class="status ${KINDS[plugin.state] ?? "dim"}">${KINDS[plugin.state] ? t(`plugin_state.${plugin.state}`) : plugin.state}</span>
`;
