// Tabs whose choice is in the address (`?tab=`): links, so that each can be shared, and back works.
import { html } from "../lib/html.js";
import { here } from "../lib/router.js";

/**
 * The chosen tab; the first without a choice.
 * @param {string[]} names @param {string} [parameter]
 */
export function tabOf(names, parameter = "tab") {
  const found = here.value.query.get(parameter);
  return found !== null && names.includes(found) ? found : names[0];
}

/**
 * @param {{tabs: {name: string, label: string, count?: number}[], label: string, parameter?: string}} props
 * `count` is shown beside the label, unless it is 0.
 */
export function Tabs({ tabs, label, parameter = "tab" }) {
  const chosen = tabOf(tabs.map((tab) => tab.name), parameter);
  const to = (/** @type {string} */ name) => {
    const query = new URLSearchParams(here.value.query);
    query.delete(parameter);
    if (name !== tabs[0].name) query.set(parameter, name);
    const text = query.toString();
    return here.value.path + (text ? `?${text}` : "");
  };
  return html`<nav class="tabs" aria-label=${label}>
    ${tabs.map((tab) => html`<a key=${tab.name} href=${to(tab.name)} aria-current=${tab.name === chosen ? "page" : null}>
      ${tab.label}${tab.count ? html` <span class="count">${tab.count}</span>` : ""}
    </a>`)}
  </nav>`;
}
