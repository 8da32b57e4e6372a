// How a step of a run is called.
import { t } from "../lib/i18n.js";

/** @param {import("../lib/steps.js").Step} step */
export function titleOf(step) {
  if (step.kind === "status") return t(`status.${step.title}`);
  if (step.kind === "message") return t("run.message");
  return step.kind === "context" ? t("run.context") : step.title;
}
