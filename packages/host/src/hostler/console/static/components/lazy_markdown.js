// Markdown on a page that can do without: its two libraries are loaded when there is something to show.
import { html, useEffect, useState } from "../lib/html.js";

/** @param {{text: string}} props */
export function LazyMarkdown({ text }) {
  const [module, setModule] = useState(/** @type {{Markdown: any} | null} */ (null));
  useEffect(() => {
    let gone = false;
    // a text that stays as it was written is no failure: a host of another version has other files
    import("../lib/markdown.js").then((found) => gone || setModule(found), () => {});
    return () => void (gone = true);
  }, []);
  return module ? html`<${module.Markdown} text=${text} />` : html`<pre class="plain" dir="auto">${text}</pre>`;
}
