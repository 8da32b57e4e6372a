// A page of several sections, each with an address of its own and loaded when it is first shown.
import { html, useEffect, useState } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { here } from "../lib/router.js";
import { Failure, Loading } from "./states.js";

/**
 * `title`: of the page; `label`: of a tab. `sections`: by the first part of their addresses.
 * @param {{title: string, label: (section: string) => string, sections: Record<string, () => Promise<{Section: any}>>, name?: string}} props
 */
export function Sections({ title, label, sections, name }) {
  const section = here.value.path.split("/")[1];
  const [found, setFound] = useState(/** @type {{section: string, Section?: any, error?: unknown} | null} */ (null));
  useEffect(() => {
    let gone = false;
    sections[section]().then(
      ({ Section }) => gone || setFound({ section, Section }),
      (error) => gone || setFound({ section, error }),
    );
    return () => void (gone = true);
  }, [section]);
  const ready = found?.section === section;
  return html`
    <header class="head"><h1>${title}</h1></header>
    <nav class="tabs" aria-label=${title}>
      ${Object.keys(sections).map((one) => html`<a key=${one} href=${`/${one}`} aria-current=${one === section ? "page" : null}>${label(one)}</a>`)}
    </nav>
    ${!ready && html`<${Loading} />`}
    ${ready && found.error && html`<${Failure} title=${t("shell.new_version")} retry=${() => location.reload()} />`}
    ${ready && found.Section && html`<${found.Section} key=${section} name=${name} />`}
  `;
}
