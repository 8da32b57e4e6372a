// Short messages about what was done, or failed.
import { html, signal } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { Icon } from "./icon.js";
import { reasonOf } from "./states.js";

const SHOWN_MS = 6000;
const MOST = 4;
let count = 0;
const notices = signal(/** @type {{id: number, text: string, bad: boolean}[]} */ ([]));

/** @param {number} id */
const drop = (id) => (notices.value = notices.value.filter((one) => one.id !== id));

/** @param {string} text @param {boolean} [bad] */
export function notice(text, bad = false) {
  const id = ++count;
  notices.value = [...notices.value, { id, text, bad }].slice(-MOST);
  if (!bad) setTimeout(() => drop(id), SHOWN_MS);
}

/** Do something for the reader, and say why it failed. @param {() => Promise<any>} work @param {string} [done] */
export async function attempt(work, done) {
  try {
    const found = await work();
    if (done) notice(done);
    return found;
  } catch (error) {
    notice(reasonOf(error), true);
    return undefined;
  }
}

export const Notices = () => html`
  <div class="notices" aria-live="polite">
    ${notices.value.map(
      ({ id, text, bad }) => html`<div key=${id} class=${bad ? "notice bad" : "notice"} role=${bad ? "alert" : "status"}>
        <span dir="auto">${text}</span>
        <button class="quiet" aria-label=${t("state.close")} onClick=${() => drop(id)}><${Icon} name="close" /></button>
      </div>`,
    )}
  </div>
`;
