// What waits for people: what is asked, by whom, and until when; decided here, and what was decided.
import { html, useEffect, useState } from "../lib/html.js";
import { isOpen, isPlain, titleOf } from "../lib/decide.js";
import { t } from "../lib/i18n.js";
import { connected, failure, mine, more, ready, waiting } from "../lib/live_pauses.js";
import { here, setQuery } from "../lib/router.js";
import { may } from "../lib/session.js";
import { lazy } from "../components/lazy.js";
import { DecidedList } from "../components/decided_list.js";
import { PauseDetail } from "../components/pause_detail.js";
import { PauseRow, ROW_PIXELS } from "../components/pause_row.js";
import { Several } from "../components/pause_several.js";
import { Empty, Failure, Loading, NoRight } from "../components/states.js";
import { Tabs, tabOf } from "../components/tabs.js";
import { WindowList } from "../components/window_list.js";

/** @typedef {import("../lib/decide.js").Pause} Pause */

const TABS = ["mine", "others", "decided", "similar"];
/** Lists of what waits for a decision. */
const OPEN = new Set(["mine", "others"]);
const SimilarList = lazy(() => import("../components/similar_list.js").then((module) => module.SimilarList));
const ORDERS = ["expiry", "oldest", "newest"];

/** @param {{pause_id?: string}} props */
export function Page({ pause_id }) {
  const tab = tabOf(TABS), beside = tab === "similar" ? undefined : pause_id, order = here.value.query.get("order") ?? "expiry";
  const mineNow = new Set(mine.value.map((pause) => pause.id));
  const others = waiting.value.filter((pause) => !mineNow.has(pause.id));
  const list = sorted(tab === "mine" ? mine.value : others, order);
  if (!may("pauses:read")) return html`<header class="head"><h1>${t("page.approvals")}</h1></header><${NoRight} right="pauses:read" />`;
  return html`
    <div class=${beside ? "inbox has-detail" : "inbox"}>
      <section class="inbox-list" aria-label=${t("page.approvals")}>
        <header class="head">
          <h1>${t("page.approvals")}</h1>
          ${!connected.value && html`<span class="offline" role="status">${t("state.reconnecting")}</span>`}
          ${OPEN.has(tab) && html`<label class="field order"><span>${t("approvals.order")}</span>
            <select onChange=${(/** @type {any} */ event) => setQuery({ order: event.target.value === "expiry" ? null : event.target.value })}>
              ${ORDERS.map((name) => html`<option key=${name} value=${name} selected=${name === order}>${t(`approvals.order.${name}`)}</option>`)}
            </select></label>`}
        </header>
        <${Tabs} label=${t("page.approvals")} tabs=${[
          { name: "mine", label: t("approvals.tab.mine"), count: mine.value.length },
          { name: "others", label: t("approvals.tab.others"), count: others.length },
          { name: "decided", label: t("approvals.tab.decided") },
          { name: "similar", label: t("approvals.tab.similar") },
        ]} />
        ${tab === "decided" ? html`<${DecidedList} chosen=${pause_id} />` : tab === "similar" ? html`<${SimilarList} />` : html`<${Inbox} list=${list} chosen=${pause_id} tab=${tab} />`}
      </section>
      ${beside && html`<${PauseDetail} key=${beside} id=${beside} next=${nextOf(list, beside)} left=${tab === "mine" ? list.length : 0} />`}
    </div>
  `;
}

/** @param {Pause[]} list @param {string} order */
function sorted(list, order) {
  if (order === "oldest") return list;
  if (order === "newest") return [...list].reverse();
  return [...list].sort((a, b) => (a.expires_at ?? Infinity) - (b.expires_at ?? Infinity) || a.created_at - b.created_at);
}

/** The pause to look at after this one. @param {Pause[]} list @param {string} id */
function nextOf(list, id) {
  const place = list.findIndex((pause) => pause.id === id);
  return (list[place + 1] ?? list.find((pause) => pause.id !== id))?.id;
}

/** @param {{list: Pause[], chosen: string | undefined, tab: string}} props */
function Inbox({ list, chosen, tab }) {
  const [picked, setPicked] = useState(/** @type {Set<string>} */ (new Set()));
  const there = list.filter((pause) => picked.has(pause.id));
  useEffect(() => setPicked(new Set()), [tab]);
  if (failure.value) return html`<${Failure} error=${failure.value} retry=${() => location.reload()} />`;
  if (!ready.value) return html`<${Loading} />`;
  if (!list.length) return html`<${Nothing} tab=${tab} />`;
  /** Those that can be decided together: every open call is a plain approval. */
  const together = tab === "mine" ? list.filter((pause) => pause.calls.filter(isOpen).every((call) => isPlain(pause, call))) : [];
  const canPick = new Set(together.length > 1 ? together.map((pause) => pause.id) : []);
  const pick = (/** @type {string} */ id, /** @type {boolean} */ on) =>
    setPicked((before) => new Set(on ? [...before, id] : [...before].filter((one) => one !== id)));
  return html`
    ${canPick.size > 0 && html`<${Several} pauses=${there} all=${together} pick=${(/** @type {string[]} */ ids) => setPicked(new Set(ids))} />`}
    <${WindowList}
      items=${list} height=${ROW_PIXELS} keyOf=${(/** @type {Pause} */ pause) => pause.id} label=${t(`approvals.tab.${tab}`)}
      row=${(/** @type {Pause} */ pause) => html`<${PauseRow}
        pause=${pause} chosen=${pause.id === chosen} picked=${picked.has(pause.id)} title=${titleOf(pause.calls.find(isOpen) ?? pause.calls[0])}
        pick=${canPick.has(pause.id) ? (/** @type {boolean} */ on) => pick(pause.id, on) : null}
      />`}
    />
    ${more.value && html`<p class="dim">${t("approvals.more")}</p>`}
  `;
}

/** @param {{tab: string}} props */
const Nothing = ({ tab }) => html`
  <${Empty} title=${t(`approvals.none.${tab}`)} text=${tab === "mine" && !may("pauses:write") ? t("approvals.only_reads") : t(`approvals.none_text.${tab}`)} />
`;
