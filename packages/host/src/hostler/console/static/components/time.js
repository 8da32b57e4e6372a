// A moment as the time that has passed since, kept up to date; the exact one is its title.
import { html, signal } from "../lib/html.js";
import { ago, moment } from "../lib/format.js";

const now = signal(Date.now() / 1000);
setInterval(() => (now.value = Date.now() / 1000), 5000);

/** @param {{at: number}} props */
export const Ago = ({ at }) => html`
  <time dateTime=${new Date(at * 1000).toISOString()} title=${moment(at)}>${ago(at, Math.max(now.value, at))}</time>
`;
