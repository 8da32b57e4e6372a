// Signs a browser in: with a key, or with an identity provider.
import { html, useEffect, useRef, useState } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { providers, refused, signIn } from "../lib/session.js";
import { Icon } from "../components/icon.js";
import { reasonOf } from "../components/states.js";

export function Page() {
  const [names, setNames] = useState(/** @type {string[]} */ ([]));
  const [wrong, setWrong] = useState(refused.value);
  const [busy, setBusy] = useState(false);
  const field = useRef(/** @type {HTMLInputElement | null} */ (null));
  useEffect(() => {
    field.current?.focus();
    providers().then(setNames, () => {});
  }, []);

  /** @param {Event} event */
  async function submit(event) {
    event.preventDefault();
    const key = field.current?.value.trim() ?? "";
    if (!key) return setWrong(t("sign_in.empty"));
    setBusy(true);
    try {
      await signIn(key);
    } catch (error) {
      setWrong(reasonOf(error));
      setBusy(false);
    }
  }

  return html`
    <main class="sign-in" id="main">
      <h1><${Icon} name="mark" /> Hostler</h1>
      ${names.map(
        (name) => html`<a class="button wide" key=${name} target="_self"
          href=${`/v1/auth/sign-in?${new URLSearchParams({ provider: name, next: location.pathname + location.search })}`}
          >${t("sign_in.with", { name })}</a>`,
      )}
      <form onSubmit=${submit}>
        <label for="key">${t("sign_in.key")}</label>
        <input
          id="key" ref=${field} type="password" autocomplete="current-password" spellcheck=${false}
          aria-describedby="key-help" aria-invalid=${wrong ? "true" : null}
        />
        <p id="key-help" class="help">${t("sign_in.help")}</p>
        ${wrong && html`<p class="wrong" role="alert" dir="auto">${wrong}</p>`}
        <button class="primary wide" disabled=${busy}>${t("sign_in.do")}</button>
      </form>
      <p class="help">${t("sign_in.link")} <code>hostler console</code></p>
    </main>
  `;
}
