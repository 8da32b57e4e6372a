// The attempts of a run, where there were several: what each took, and what its end cost.
import { html } from "../lib/html.js";
import { clock, duration, money, number } from "../lib/format.js";
import { t } from "../lib/i18n.js";
import { attemptsOf } from "../lib/steps.js";

/** @param {{steps: import("../lib/steps.js").Step[]}} props */
export function Attempts({ steps }) {
  if (steps.length === 0 || steps[steps.length - 1].attempt < 2) return null;
  return html`
    <section class="card">
      <h2>${t("run.attempts")}</h2>
      <ol class="plain-list">
        ${attemptsOf(steps).map((one) => html`<li key=${one.number} class="line">
          <strong>${t("run.attempt", { number: one.number })}</strong>
          <span class="dim">${clock(one.from)} · ${duration(one.to - one.from)}</span>
          <span class="dim figures">${[
            one.models ? t("run.model_calls", { count: one.models }) : "", one.tools ? t("run.tool_calls", { count: one.tools }) : "",
            one.tokens ? t("runs.tokens", { tokens: number(one.tokens) }) : "", one.cost ? money(one.cost) : "",
          ].filter(Boolean).join(" · ")}</span>
          ${one.ended && html`<span class="wrong" dir="auto">${t("run.ended_by", { cause: one.ended })}</span>`}
          ${one.idle > 0 && html`<span class="dim">${t("run.idle", { time: duration(one.idle) })}</span>`}
        </li>`)}
      </ol>
    </section>
  `;
}
