// Where events come from, beside the API: channels, hooks, schedules. One tab each.
import { html } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { Sections } from "../components/sections.js";

/** @type {Record<string, () => Promise<{Section: any}>>} */
const SECTIONS = {
  channels: () => import("../components/channels.js"),
  hooks: () => import("../components/hooks.js"),
  schedules: () => import("../components/schedules.js"),
};

/** @param {string} section */
const label = (section) => t(`sources.${section}`);

/** @param {{name?: string}} props */
export const Page = ({ name }) => html`<${Sections} title=${t("page.sources")} label=${label} sections=${SECTIONS} name=${name} />`;
