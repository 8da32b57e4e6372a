// Entries of the configuration that this version of the host cannot read: no page of theirs shows them, and they can be removed.
import { html, useEffect, useState } from "../lib/html.js";
import { get, path } from "../lib/api.js";
import { brief } from "../lib/brief.js";
import { forgetChoices } from "../lib/choices.js";
import { removeEntry } from "../lib/config_entries.js";
import { t } from "../lib/i18n.js";
import { may } from "../lib/session.js";
import { ConfirmButton } from "./confirm.js";
import { attempt, notice } from "./notice.js";

/**
 * @typedef {{kind: string, name: string, done: () => void, failed?: () => void}} Props
 * `done`: called after it is removed. `failed`: after it was not, since it may be another one by now.
 */

/** @param {Props} props */
export function RemoveUnreadable({ kind, name, done, failed }) {
  const drop = async () => {
    const gone = await attempt(() => removeEntry(kind, name), t(kind === "plugins" ? "entry.removed" : `source.removed.${kind}`));
    if (!gone) return failed?.();
    forgetChoices(kind);
    for (const text of gone) notice(text, true);
    done();
  };
  return html`<${ConfirmButton} label=${t("entry.remove")} name=${name} act=${drop}
    question=${kind === "plugins" ? t("entry.sure_help", { name }) : t(`source.sure.${kind}`)} />`;
}

/** In place of the form of an entry. @param {Props} props */
export const Unreadable = (props) => html`<p class="wrong">${t("entry.unreadable")}</p><${RemoveUnreadable} ...${props} />`;

/** Those of a kind, where the page lists what can be read; nothing if there are none. @param {{kind: string}} props */
export function UnreadableEntries({ kind }) {
  const [found, setFound] = useState(/** @type {any[]} */ ([])), [reads, setReads] = useState(0);
  useEffect(() => {
    if (!may("installation")) return;
    const abort = new AbortController();
    get(path("config", kind), {}, abort.signal).then(
      (page) => setFound(page.items.filter((/** @type {any} */ one) => one.entry === null)),
      () => {}, // the list above says what the host does not answer
    );
    return () => abort.abort();
  }, [kind, reads]);
  if (!found.length) return null;
  const again = () => setReads(reads + 1);
  return html`
    <section class="card" aria-label=${t("source.unreadable")}><h2>${t("source.unreadable")}</h2>
      <ul class="plain-list">${found.map((one) => html`<li key=${one.name} class="line">
        <span class="grow"><bdi>${one.name}</bdi>${one.problem && html`<br /><span class="wrong" dir="auto">${brief(one.problem)}</span>`}</span>
        <${RemoveUnreadable} kind=${kind} name=${one.name} done=${again} failed=${again} />
      </li>`)}</ul></section>
  `;
}
