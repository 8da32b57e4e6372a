// A secret that was made just now, and is shown only here. It is in no storage of the browser.
import { html, useEffect, useRef } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { CopyButton } from "./copy_button.js";

/** @param {{secret: string, title: string, close: () => void, children?: any}} props */
export function ShownOnce({ secret, title, close, children }) {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    box.current?.focus();
    box.current?.scrollIntoView({ block: "nearest" });
  }, [secret]);
  return html`
    <section class="card once" ref=${box} tabindex="-1" aria-label=${title}>
      <h2>${title}</h2>
      <p>${t("once.help")}</p>
      <div class="once-line"><code class="secret">${secret}</code><${CopyButton} text=${secret} /></div>
      ${children}
      <button onClick=${close}>${t("once.kept")}</button>
    </section>
  `;
}
