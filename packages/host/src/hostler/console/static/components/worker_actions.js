// Whether a remote worker gets new runs, and what can be done with it.
import { html } from "../lib/html.js";
import { path, post, remove } from "../lib/api.js";
import { t } from "../lib/i18n.js";
import { may } from "../lib/session.js";
import { ConfirmButton } from "./confirm.js";
import { attempt } from "./notice.js";

/** @type {Record<string, string>} */
const KINDS = { active: "good", cordoned: "waits", draining: "works" };

/** The word by which a list is sorted: who is away is last. @param {any} worker */
export const stateOf = (worker) => (worker.connected ? worker.state : `~ ${worker.state}`);

/** A worker that is away has its state again once it is back. @param {{worker: any}} props */
export const WorkerState = ({ worker }) => html`
  ${!worker.connected && html`<span class="status ${worker.state === "draining" ? "dim" : "bad"}">${t("worker_state.away")}</span> `}
  ${(worker.connected || worker.state !== "active") && html`<span class="status ${worker.connected ? KINDS[worker.state] : "dim"}">${t(`worker_state.${worker.state}`)}</span>`}
`;

/** @param {{worker: any, changed: () => void, gone: () => void, named?: boolean}} props `named`: where there are several. */
export function WorkerActions({ worker, changed, gone, named = false }) {
  if (!may("workers:write")) return null;
  const id = worker.worker_id, name = named ? id : undefined;
  const act = (/** @type {string} */ verb) => attempt(() => post(path("workers", id, verb), {}), t(`workers.${verb}_done`, { worker: id })).then(changed);
  const drop = () => attempt(() => remove(path("workers", id)).then(() => true), t("workers.removed", { worker: id })).then((done) => done && gone());
  const button = (/** @type {string} */ verb) => html`<button aria-label=${named ? `${t(`workers.${verb}`)}: ${id}` : null} title=${t(`workers.${verb}_help`)} onClick=${() => act(verb)}>${t(`workers.${verb}`)}</button>`;
  return html`<span class="row-buttons">
    ${worker.state === "active" ? button("cordon") : button("uncordon")}
    ${worker.connected && worker.state !== "draining" && html`<${ConfirmButton} label=${t("workers.drain")} name=${name} question=${t("workers.drain_sure")} danger=${false} act=${() => act("drain")} />`}
    <${ConfirmButton} label=${t("members.remove")} name=${name} question=${t(worker.connected ? "workers.remove_sure" : "workers.forget_sure")} act=${drop} />
  </span>`;
}
