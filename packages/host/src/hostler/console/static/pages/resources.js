// What agents can use: models, tools, MCP servers, skills. One tab each, and one page for each thing.
import { html } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { Sections } from "../components/sections.js";

/** @type {Record<string, () => Promise<{Section: any}>>} */
const SECTIONS = {
  models: () => import("../components/models.js"),
  tools: () => import("../components/tools.js"),
  "mcp-servers": () => import("../components/mcp_servers.js"),
  skills: () => import("../components/skills.js"),
};

/** @param {string} section */
const label = (section) => t(`resources.${section}`);

/** @param {{name?: string}} props */
export const Page = ({ name }) => html`<${Sections} title=${t("page.resources")} label=${label} sections=${SECTIONS} name=${name} />`;
