// What an agent may and may not do, in sentences.
import { html, useMemo } from "../lib/html.js";
import { language, t } from "../lib/i18n.js";
import { wordsOf } from "../lib/policy_words.js";

/** @type {Record<string, string>} */
const MARKS = { may: "✓", asks: "?", not: "✕", note: "·" };

/** @param {{spec: any}} props */
export function PolicyWords({ spec }) {
  const chapters = useMemo(() => wordsOf(spec), [spec, language.value]);
  return html`<div class="words">
    ${chapters.map((chapter) => html`<section key=${chapter.name}>
      <h3>${t(`agents.chapter.${chapter.name}`)}</h3>
      <ul>
        ${chapter.sentences.map((one) => html`<li key=${one.text} class=${`says-${one.kind}`}>
          <span class="tick" aria-hidden="true">${MARKS[one.kind]}</span>
          <span dir="auto">${one.text}</span>
        </li>`)}
      </ul>
    </section>`)}
  </div>`;
}
