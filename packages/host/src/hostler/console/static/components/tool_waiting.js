// A tool that its server added or changed: what is different, and the approval.
import { html } from "../lib/html.js";
import { path, post } from "../lib/api.js";
import { comparable } from "../lib/diff.js";
import { t } from "../lib/i18n.js";
import { seenPieces } from "../lib/seen_text.js";
import { may } from "../lib/session.js";
import { attempt } from "./notice.js";
import { Diff } from "./diff.js";

/** A definition as lines, as `hostler tools approve` shows it. @param {any} definition */
const linesOf = (definition) =>
  definition ? seenPieces(`${definition.description}\n${comparable({ parameters: definition.parameters, output_schema: definition.output_schema })}`).join("") : "";

/** @param {{tool: any, again: () => Promise<void>}} props */
export function ToolWaiting({ tool, again }) {
  const { waiting } = tool;
  const approve = () => attempt(() => post(path("tools", tool.name, "approve"), { digest: waiting.digest }), t("waiting.approved")).then(again);
  return html`
    <section class="card attention">
      <h2>${waiting.approved ? t("waiting.changed") : t("waiting.new")}</h2>
      <p>${t("waiting.help")}</p>
      <${Diff} before=${linesOf(waiting.approved)} after=${linesOf(waiting.now)} labels=${[t("waiting.before"), t("waiting.now")]} />
      <p class="dim">${t("waiting.digest")} <code>${waiting.digest}</code></p>
      ${may("installation") ? html`<button class="primary" onClick=${approve}>${t("waiting.approve")}</button>` : html`<p class="dim">${t("waiting.right")}</p>`}
    </section>
  `;
}
