// Messages that an agent offers to who begins a conversation.
import { html, useLayoutEffect, useRef, useState } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { filled, titleOf } from "../lib/prompts.js";
import { Dialog } from "./dialog.js";

/** @typedef {import("../lib/prompts.js").Prompt} Prompt */

/** @param {{prompts: Prompt[], pick: (text: string) => void}} props `pick` gets the text of a message */
export function ChatPrompts({ prompts, pick }) {
  const [asks, setAsks] = useState(/** @type {Prompt | null} */ (null));
  const choose = (/** @type {any} */ event, /** @type {Prompt} */ prompt) => {
    if (!prompt.arguments.length) return pick(prompt.text);
    event.currentTarget.focus(); // not every browser does on a click, and the dialog gives the focus back
    setAsks(prompt);
  };
  return html`
    <ul class="prompts" aria-label=${t("chat.prompts")}>
      ${prompts.map((prompt) => html`<li key=${prompt.name}><button type="button" onClick=${(/** @type {any} */ event) => choose(event, prompt)}>
        <span dir="auto">${titleOf(prompt)}</span>${prompt.description && html`<span class="dim" dir="auto">${prompt.description}</span>`}
      </button></li>`)}
    </ul>
    ${asks && html`<${Arguments} prompt=${asks} close=${() => setAsks(null)} done=${(/** @type {string} */ text) => (setAsks(null), pick(text))} />`}
  `;
}

/** @param {{prompt: Prompt, close: () => void, done: (text: string) => void}} props */
function Arguments({ prompt, close, done }) {
  const [values, setValues] = useState(/** @type {Map<string, string>} */ (new Map()));
  const form = useRef(/** @type {HTMLFormElement | null} */ (null));
  useLayoutEffect(() => form.current?.querySelector("textarea")?.focus(), []);
  const pressed = (/** @type {any} */ event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || matchMedia("(pointer: coarse)").matches) return;
    event.preventDefault();
    event.currentTarget.form.requestSubmit();
  };
  return html`
    <${Dialog} title=${titleOf(prompt)} close=${close}>
      ${prompt.description && html`<p dir="auto">${prompt.description}</p>`}
      <form ref=${form} onSubmit=${(/** @type {Event} */ event) => (event.preventDefault(), done(filled(prompt, values)))}>
        ${prompt.arguments.map(({ name, description, required }) => html`<label class="stacked" key=${name}>
          <span><span dir="auto">${description || name}</span>${required && html` <span class="required" title=${t("form.required_mark")} aria-hidden="true">*</span>`}</span>
          <textarea rows="2" dir="auto" required=${required} value=${values.get(name) ?? ""} onKeyDown=${pressed}
            onInput=${(/** @type {any} */ event) => setValues(new Map(values).set(name, event.target.value))}></textarea>
        </label>`)}
        <div class="dialog-actions">
          <button type="button" onClick=${close}>${t("dialog.cancel")}</button>
          <button class="primary">${t("chat.put_in")}</button>
        </div>
      </form>
    </${Dialog}>
  `;
}
