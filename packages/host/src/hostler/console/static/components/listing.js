// What stands around a list that is read page by page: loading, failed, empty, more, not reached.
import { html } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { Failure, Loading } from "./states.js";
import { Ago } from "./time.js";

/** @param {{list: any, empty: any, children?: any}} props `list`: of lib/fresh.js */
export function Listing({ list, empty, children }) {
  if (list.error) return html`<${Failure} error=${list.error} retry=${list.reload} />`;
  if (!list.items) return html`<${Loading} />`;
  return html`
    ${list.items.length ? children : empty}
    <p class="dim foot">
      ${list.more && html`<button onClick=${list.next}>${t("list.more")}</button> `}
      ${list.offline ? html`<span class="offline" role="status">${t("state.reconnecting")}</span>` : html`${t("usage.read")} <${Ago} at=${list.at} />`}
    </p>
  `;
}
