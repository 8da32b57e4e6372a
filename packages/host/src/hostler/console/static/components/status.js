// The status of a run, in a word and a colour.
import { html } from "../lib/html.js";
import { t } from "../lib/i18n.js";

/** @type {Record<string, string>} */
const KINDS = {
  completed: "good", failed: "bad", timeout: "bad", cancelled: "dim", paused: "waits", queued: "dim", claimed: "works",
  running: "works",
};
export const STATUSES = Object.keys(KINDS);
export const TERMINAL = new Set(["completed", "failed", "timeout", "cancelled"]);

/** @param {{status: string}} props */
export const Status = ({ status }) => html`
  <span class="status ${KINDS[status] ?? "dim"}">${t(`status.${status}`)}</span>
`;
