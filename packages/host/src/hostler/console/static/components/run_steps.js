// The steps of a run beside something else: narrow, live, each opened by itself.
import { html, useEffect, useMemo, useState } from "../lib/html.js";
import { duration } from "../lib/format.js";
import { t } from "../lib/i18n.js";
import { useOutcomes } from "../lib/live_actions.js";
import { liveJournal } from "../lib/live_journal.js";
import { useReturnFocus } from "../lib/return_focus.js";
import { address } from "../lib/router.js";
import { ActionMarks } from "./action_step.js";
import { Icon } from "./icon.js";
import { Failure, Loading } from "./states.js";
import { StepDetails } from "./step_details.js";
import { titleOf } from "./step_title.js";

/** @typedef {import("../lib/steps.js").Step} Step */

const SHOWN = 200;

/** @param {{run_id: string, close: () => void}} props */
export function RunSteps({ run_id, close }) {
  const panel = useReturnFocus();
  const journal = useMemo(() => liveJournal(run_id), [run_id]);
  useEffect(() => journal.stop, [journal]);
  const [from, setFrom] = useState(0);
  const steps = useOutcomes(run_id, journal.steps.value), first = Math.max(0, steps.length - SHOWN - from);
  return html`
    <aside class="beside" ref=${panel} aria-label=${t("chat.steps")}>
      <header class="beside-head">
        <h2>${t("chat.steps")}</h2>
        <a class="grow" href=${address("runs", run_id)}>${t("chat.to_run")}</a>
        <button type="button" class="quiet" aria-label=${t("state.close")} onClick=${close}><${Icon} name="close" /></button>
      </header>
      ${journal.failure.value ? html`<${Failure} error=${journal.failure.value} />` : steps.length === 0 && html`<${Loading} />`}
      ${first > 0 && html`<button type="button" onClick=${() => setFrom(from + SHOWN)}>${t("chat.earlier_steps", { count: first })}</button>`}
      <ol class="small-steps">${steps.slice(first).map((step) => html`<${Row} key=${step.key} step=${step} journal=${journal} />`)}</ol>
    </aside>
  `;
}

/** @param {{step: Step, journal: import("../lib/live_journal.js").LiveJournal}} props */
function Row({ step, journal }) {
  const [open, setOpen] = useState(false);
  const title = titleOf(step);
  const seconds = step.to - step.from;
  return html`
    <li class=${`step of-${step.kind} ${step.bad ? "bad" : ""}`}>
      <button type="button" class="small-row" aria-expanded=${open} onClick=${() => setOpen(!open)}>
        <span class="kind">${t(`step.${step.kind}`)}</span>
        <span class="what" dir="auto"><strong>${title}</strong> ${step.note || step.text.slice(0, 120)}</span>
        ${step.kind === "action" && html`<${ActionMarks} step=${step} doubt=${false} />`}
        <span class="dim figures">${seconds >= 0.01 ? duration(seconds) : ""}</span>
      </button>
      ${open && html`<${StepDetails} step=${step} journal=${journal} beside />`}
    </li>
  `;
}
