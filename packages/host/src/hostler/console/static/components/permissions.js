// What a plugin may do, in plain words, each with its risk.
import { html } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { highest } from "../lib/permissions.js";

/** @typedef {import("../lib/permissions.js").Permission} Permission */

const KINDS = { low: "good", medium: "waits", high: "bad" };

/** @param {{risk: import("../lib/permissions.js").Risk}} props */
export const RiskLabel = ({ risk }) => html`<span class="status ${KINDS[risk]}">${t(`risk.${risk}`)}</span>`;

/** @param {{permissions: Permission[]}} props */
export const Permissions = ({ permissions }) => html`
  <section class="card">
    <h2>${t("permission.title")} <${RiskLabel} risk=${highest(permissions)} /></h2>
    <table class="permissions">
      <tbody>
        ${permissions.map((one, number) => html`
          <tr key=${one.key}>
            <th scope="row">${one.area === permissions[number - 1]?.area ? html`<span class="hidden">${t(`area.${one.area}`)}</span>` : t(`area.${one.area}`)}</th>
            <td dir="auto">${t(`permission.${one.key}`, one.fields)}</td>
            <td><${RiskLabel} risk=${one.risk} /></td>
          </tr>
        `)}
      </tbody>
    </table>
  </section>
`;
