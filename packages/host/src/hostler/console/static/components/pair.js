// One moment of two runs: the step of each, and what differs between them.
import { html, useEffect } from "../lib/html.js";
import { lasting } from "../lib/compare.js";
import { comparable } from "../lib/diff.js";
import { duration, money, short } from "../lib/format.js";
import { t } from "../lib/i18n.js";
import { address } from "../lib/router.js";
import { partsOf } from "../lib/step_parts.js";
import { Diff } from "./diff.js";
import { titleOf } from "./step_title.js";
import { reasonOf } from "./states.js";
import { useEntries } from "./step_details.js";

/** @typedef {import("../lib/steps.js").Step} Step @typedef {import("../lib/compare.js").Pair} Pair */
/** @typedef {import("../lib/live_journal.js").LiveJournal} LiveJournal */
/** @typedef {{pair: Pair, left: LiveJournal, right: LiveJournal}} PairProps */

const NO_STEP = /** @type {Step} */ (/** @type {unknown} */ ({ key: "", entries: [], position: 0, kind: "other" }));
const MARKS = /** @type {Record<string, string>} */ ({ same: "=", changed: "≠", left: "−", right: "+", unsure: "…" });

/** @param {PairProps & {open: boolean, toggle: () => void, same: boolean | undefined, decide: (key: string, same: boolean) => void}} props */
export function PairRow({ pair, left, right, open, toggle, same, decide }) {
  const kind = pair.kind !== "unsure" || same === undefined ? pair.kind : same ? "same" : "changed";
  return html`
    <div class="step pair ${kind}">
      ${kind === "unsure" && html`<${Decide} pair=${pair} left=${left} right=${right} decide=${decide} />`}
      <button class="row" aria-expanded=${open} onClick=${toggle}>
        <span class="sign" title=${t(`compare.${kind}`)}><span aria-hidden="true">${MARKS[kind]}</span><span class="hidden">${t(`compare.${kind}`)}</span></span>
        <${Half} step=${pair.left} /><${Half} step=${pair.right} />
      </button>
    </div>
  `;
}

/** @param {{step: Step | null}} props */
function Half({ step }) {
  if (step === null) return html`<span class="half none"></span>`;
  const tokens = (step.usage?.input_tokens ?? 0) + (step.usage?.output_tokens ?? 0), seconds = step.to - step.from;
  return html`<span class="half of-${step.kind} ${step.bad ? "bad" : ""}">
    <span class="what" dir="auto"><span class="kind">${t(`step.${step.kind}`)}</span> <strong>${titleOf(step)}</strong> ${step.note || step.text.slice(0, 120)}</span>
    <span class="dim figures">${[tokens ? short(tokens) : "", step.cost ? money(step.cost) : "", seconds >= 0.001 ? duration(seconds) : ""].filter(Boolean).join(" · ")}</span>
  </span>`;
}

/** Finds out whether two steps are the same, by their whole entries. @param {PairProps & {decide: (key: string, same: boolean) => void}} props */
function Decide({ pair, left, right, decide }) {
  const parts = useParts({ pair, left, right });
  useEffect(() => {
    if (parts && !(parts instanceof Error)) decide(pair.key, parts.every(([, one, other]) => comparable(lasting(one)) === comparable(lasting(other))));
  }, [parts]);
  return null;
}

/** The parts of both, by heading. @param {PairProps} props @returns {[string, any, any][] | Error | null} */
function useParts({ pair, left, right }) {
  const one = useEntries(pair.left ?? NO_STEP, left), other = useEntries(pair.right ?? NO_STEP, right);
  if (one instanceof Error) return one;
  if (other instanceof Error) return other;
  if (one === null || other === null) return null;
  const before = new Map(pair.left ? partsOf(pair.left, one.slice(0, pair.left.entries.length)) : []);
  const after = new Map(pair.right ? partsOf(pair.right, other.slice(0, pair.right.entries.length)) : []);
  return [...new Set([...before.keys(), ...after.keys()])].map((key) => [key, before.get(key), after.get(key)]);
}

/** @param {PairProps} props */
export function PairDetails({ pair, left, right }) {
  const parts = useParts({ pair, left, right });
  const links = /** @type {[Step | null, LiveJournal, string][]} */ ([[pair.left, left, t("compare.left")], [pair.right, right, t("compare.right")]]);
  return html`
    <div class="details">
      <p class="line-of">${links.map(([step, journal, label]) => step && html`<a key=${label} href=${`${address("runs", journal.run.value.run_id)}#step-${step.first}`}>${t("compare.open", { side: label })}</a>`)}</p>
      ${parts === null && html`<p class="dim" role="status">${t("state.loading")}</p>`}
      ${parts instanceof Error && html`<p class="wrong" role="alert">${reasonOf(parts)}</p>`}
      ${Array.isArray(parts) && parts.map(([key, one, other]) => html`<h3 key=${key}>${t(`part.${key}`)}</h3>
        <${Diff} before=${lasting(one)} after=${lasting(other)} labels=${[t("compare.left"), t("compare.right")]} />`)}
    </div>
  `;
}
