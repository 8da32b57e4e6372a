// The remote workers, and one of them.
import { html } from "../lib/html.js";
import { get } from "../lib/api.js";
import { brief } from "../lib/brief.js";
import { t } from "../lib/i18n.js";
import { usePolled } from "../lib/polled.js";
import { address } from "../lib/router.js";
import { may } from "../lib/session.js";
import { PolledStates } from "../components/polled_states.js";
import { Empty, NoRight } from "../components/states.js";
import { Table } from "../components/table.js";
import { Ago } from "../components/time.js";
import { Labels, Slots, Worker } from "../components/worker.js";
import { WorkerActions, WorkerState, stateOf } from "../components/worker_actions.js";

/** @param {{worker?: string}} props */
export function Page({ worker }) {
  if (!may("workers:read")) return html`<header class="head"><h1>${t("page.workers")}</h1></header><${NoRight} right="workers:read" />`;
  return worker ? html`<${Worker} key=${worker} id=${worker} />` : html`<${List} />`;
}

/** A workspace may have a thousand of them. @param {AbortSignal} signal */
async function read(signal) {
  let items = /** @type {any[]} */ ([]), cursor = null;
  do {
    const page = await get("/v1/workers", { limit: 500, cursor }, signal);
    items = [...items, ...page.items];
    cursor = page.next_cursor;
  } while (cursor);
  return items;
}

function List() {
  const polled = usePolled(read, []), workers = polled.value;
  return html`
    <header class="head"><h1>${t("page.workers")}</h1></header>
    <p class="dim">${t("workers.help")}</p>
    <${PolledStates} of=${polled} />
    ${workers?.length === 0 && html`<${Empty} title=${t("workers.none")} text=${t("workers.none_text")}>
      <pre class="commands">hostler keys create gpu-1 --right workers:connect${"\n"}HOSTLER_KEY=... hostler worker --connect ${location.origin} --labels gpu,eu --slots 8</pre>
    <//>`}
    ${workers && workers.length > 0 && html`<${Table} label=${t("page.workers")} rows=${workers} keyOf=${(/** @type {any} */ one) => one.worker_id} columns=${columns(polled.again)} />`}
  `;
}

/** @param {() => Promise<void>} again @returns {import("../components/table.js").Column[]} */
const columns = (again) => [
  { key: "worker_id", label: t("workers.worker"), wide: true, cell: (one) => html`<span><a href=${address("workers", one.worker_id)}><bdi>${one.worker_id}</bdi></a> <span class="dim">${one.version}</span><br /><span class="dim clamp" dir="auto">${brief([one.machine.system, one.machine.python && `Python ${one.machine.python}`].filter(Boolean).join(" · "))}</span>${!one.connected && one.reason && html`<span class="dim clamp" dir="auto">${brief(one.reason)}</span>`}</span>` },
  { key: "state", label: t("tools.state"), value: stateOf, cell: (one) => html`<span class="row-buttons"><${WorkerState} worker=${one} /></span>` },
  { key: "labels", label: t("workers.labels"), value: (one) => one.labels.join(" "), cell: (one) => html`<${Labels} of=${one} />` },
  { key: "active", label: t("workers.slots"), figures: true, cell: (one) => html`<${Slots} of=${one} />` },
  { key: "seen_at", label: t("workers.seen"), cell: (one) => html`<span class="nowrap"><${Ago} at=${one.seen_at} /></span>` },
  ...(may("workers:write") ? [{ key: "do", label: "", sort: false, cell: (/** @type {any} */ one) => html`<${WorkerActions} worker=${one} changed=${again} gone=${again} named=${true} />` }] : []),
];
