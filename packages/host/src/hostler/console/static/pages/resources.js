// What agents can use: models, tools, MCP servers, skills. One tab each, and one page for each thing.
import { html, useEffect, useState } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { here } from "../lib/router.js";
import { Failure, Loading } from "../components/states.js";

/** @type {Record<string, () => Promise<{Section: any}>>} */
const SECTIONS = {
  models: () => import("../components/models.js"),
  tools: () => import("../components/tools.js"),
  "mcp-servers": () => import("../components/mcp_servers.js"),
  skills: () => import("../components/skills.js"),
};

/** @param {{name?: string}} props */
export function Page({ name }) {
  const section = here.value.path.split("/")[1];
  const [found, setFound] = useState(/** @type {{section: string, Section?: any, error?: unknown} | null} */ (null));
  useEffect(() => {
    let gone = false;
    SECTIONS[section]().then(
      ({ Section }) => gone || setFound({ section, Section }),
      (error) => gone || setFound({ section, error }),
    );
    return () => void (gone = true);
  }, [section]);
  const ready = found?.section === section;
  return html`
    <header class="head"><h1>${t("page.resources")}</h1></header>
    <nav class="tabs" aria-label=${t("page.resources")}>
      ${Object.keys(SECTIONS).map((one) => html`<a key=${one} href=${`/${one}`} aria-current=${one === section ? "page" : null}>${t(`resources.${one}`)}</a>`)}
    </nav>
    ${!ready && html`<${Loading} />`}
    ${ready && found.error && html`<${Failure} title=${t("shell.new_version")} retry=${() => location.reload()} />`}
    ${ready && found.Section && html`<${found.Section} key=${section} name=${name} />`}
  `;
}
