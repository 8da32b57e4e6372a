// What was decided, or ended without a decision: newest first, and live.
import { html, signal, useEffect, useMemo } from "../lib/html.js";
import { get } from "../lib/api.js";
import { titleOf } from "../lib/decide.js";
import { t } from "../lib/i18n.js";
import { over, pauseOf } from "../lib/live_pauses.js";
import { PauseRow, ROW_PIXELS } from "./pause_row.js";
import { Empty, Failure, Loading } from "./states.js";
import { WindowList } from "./window_list.js";

/** @typedef {import("../lib/decide.js").Pause} Pause */

const PAGE = 50;
const OVER = ["ready", "resuming", "resumed", "cancelled", "superseded", "failed"];

function decided() {
  const abort = new AbortController();
  const items = signal(/** @type {Pause[]} */ ([])), state = signal(/** @type {"loading" | "ready" | Error} */ ("loading"));
  let cursor = /** @type {string | null} */ (null), all = false, loading = false;
  async function page() {
    if (loading || all) return;
    loading = true;
    try {
      const found = await get("/v1/pauses", { status: OVER, limit: PAGE, cursor }, abort.signal);
      cursor = found.next_cursor;
      all = !found.has_more;
      items.value = [...items.value, ...found.items];
      state.value = "ready";
    } catch (error) {
      if (!abort.signal.aborted) state.value = /** @type {Error} */ (error);
    } finally {
      loading = false;
    }
  }
  page();
  return { items, state, more: page, isAll: () => all, stop: () => abort.abort() };
}

/** @param {{chosen: string | undefined}} props */
export function DecidedList({ chosen }) {
  const list = useMemo(decided, []);
  useEffect(() => list.stop, [list]);
  const state = list.state.value, read = list.items.value;
  if (state === "loading") return html`<${Loading} />`;
  if (state instanceof Error) return html`<${Failure} error=${state} retry=${() => location.reload()} />`;
  // what is decided while the page is open comes on top, once
  const ids = new Set(read.map((pause) => pause.id)), last = list.isAll() ? 0 : read.at(-1)?.created_at ?? 0;
  const fresh = over.value.filter((pause) => !ids.has(pause.id) && pause.created_at >= last);
  const shown = [...fresh, ...read.map((pause) => pauseOf(pause.id) ?? pause)].sort((a, b) => b.created_at - a.created_at);
  if (!shown.length) return html`<${Empty} title=${t("approvals.none.decided")} text=${t("approvals.none_text.decided")} />`;
  return html`<${WindowList}
    items=${shown} height=${ROW_PIXELS} keyOf=${(/** @type {Pause} */ pause) => pause.id} more=${list.more} label=${t("approvals.tab.decided")}
    row=${(/** @type {Pause} */ pause) => html`<${PauseRow} pause=${pause} title=${outcomeOf(pause)} chosen=${pause.id === chosen} />`}
  />`;
}

/** What became of it, and what it was about. @param {Pause} pause */
function outcomeOf(pause) {
  const call = pause.calls[0];
  const by = call.decided_by_name ?? call.decided_by;
  const was = t(`decision.was.${call.decision}`);
  return `${was}${by && by !== "clock" && by !== "host" ? ` (${by})` : ""}: ${call.tool ?? titleOf(call)}`;
}
