// What stands above something that is read again and again: it loads, failed, or the host is away.
import { html } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { Failure, Loading } from "./states.js";

/** @param {{of: import("../lib/polled.js").Polled<any>, quiet?: boolean}} props `quiet`: does not say how it is refreshed. */
export const PolledStates = ({ of, quiet }) => html`
  ${!of.connected && html`<p><span class="offline" role="status">${t("state.reconnecting")}</span></p>`}
  ${of.error && html`<${Failure} error=${of.error} retry=${of.again} />`}
  ${!of.error && of.value === null && html`<${Loading} />`}
  ${!quiet && of.connected && !of.error && of.value !== null && html`<p class="dim refreshed">${t("polled.seconds")}</p>`}
`;
