// Tabs with addresses of their own: `/settings/keys`.
import { html, useLayoutEffect, useRef } from "../lib/html.js";
import { address } from "../lib/router.js";

/**
 * @param {{base: string, tabs: {name: string, label: string}[], current: string, label: string}} props
 * The tab without a name is at `base` itself.
 */
export function PathTabs({ base, tabs, current, label }) {
  const bar = useRef(/** @type {HTMLElement | null} */ (null));
  useLayoutEffect(() => {
    // on a phone the chosen tab may be out of sight
    const chosen = bar.current?.querySelector("[aria-current]");
    if (bar.current && chosen instanceof HTMLElement) bar.current.scrollLeft = chosen.offsetLeft - bar.current.clientWidth / 2 + chosen.clientWidth / 2;
  }, [current]);
  return html`
    <nav class="tabs" aria-label=${label} ref=${bar}>
      ${tabs.map((tab) => html`<a key=${tab.name} href=${tab.name ? base + address(tab.name) : base} aria-current=${tab.name === current ? "page" : null}>${tab.label}</a>`)}
    </nav>
  `;
}
