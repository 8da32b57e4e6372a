// The folders that skills are read from: listed, added and removed.
import { html, useEffect, useState } from "../lib/html.js";
import { get } from "../lib/api.js";
import { brief } from "../lib/brief.js";
import { forgetChoices } from "../lib/choices.js";
import { isOfFile, removeEntry } from "../lib/config_entries.js";
import { t } from "../lib/i18n.js";
import { usePolled } from "../lib/polled.js";
import { skillName } from "../lib/resource_fields.js";
import { go } from "../lib/router.js";
import { ConfirmButton } from "./confirm.js";
import { attempt, notice } from "./notice.js";
import { PolledStates } from "./polled_states.js";
import { SourceEntry } from "./source_entry.js";
import { Failure } from "./states.js";
import { Table } from "./table.js";

/** @param {AbortSignal} signal */
const read = (signal) => get("/v1/config/skills", {}, signal).then((page) => page.items);
/** @param {string} folder */
const addressOf = (folder) => `/skills?${new URLSearchParams({ folder })}`;

/** @param {{of: any}} props */
const State = ({ of }) => html`<span class="status ${of.problem ? "bad" : "good"}">${t(of.problem ? "skills.left_out" : "skills.ready")}</span>`;

export function SkillFolders() {
  const polled = usePolled(read, []), folders = polled.value;
  if (!polled.error && !folders?.length) return null;
  return html`
    <div class="section-head"><h2>${t("skills.folders")}</h2></div>
    <${PolledStates} of=${polled} quiet=${true} />
    ${folders && html`<${Table} label=${t("skills.folders")} rows=${folders} keyOf=${(/** @type {any} */ one) => one.name} columns=${[
      { key: "name", label: t("skills.source"), wide: true, cell: (/** @type {any} */ one) => html`<span><a href=${addressOf(one.name)}><bdi>${one.name}</bdi></a>${one.problem && html`<br /><span class="wrong clamp" dir="auto">${brief(one.problem)}</span>`}</span>` },
      { key: "problem", label: t("tools.state"), cell: (/** @type {any} */ one) => html`<${State} of=${one} />` },
    ]} />`}
  `;
}

const SHAPE = { naming: skillName, nameOf: (/** @type {any} */ values) => values.path };
const none = () => [];

/** @param {{path: string | null}} props without a path: a new one */
export const SkillFolder = (props) => (props.path === null ? html`
  <h2 class="thing"><a class="back" href="/skills" aria-label=${t("skills.back")}>←</a> ${t("source.new.skills")}</h2>
  <p class="dim">${t("skills.new_help")}</p>
  <${SourceEntry} kind="skills" fields=${none} more=${none} shape=${SHAPE} done=${(/** @type {string} */ folder) => go(addressOf(folder), { replace: true })} />
` : html`<${One} folder=${props.path} />`);

/** @param {{folder: string}} props */
function One({ folder }) {
  const polled = usePolled(read, [folder]), entry = polled.value?.find((/** @type {any} */ one) => one.name === folder);
  const [file, setFile] = useState(false);
  useEffect(() => {
    const abort = new AbortController();
    isOfFile("skills", folder, abort.signal).then((found) => abort.signal.aborted || setFile(found));
    return () => abort.abort();
  }, []);
  const drop = async () => {
    const gone = await attempt(() => removeEntry("skills", folder), t("source.removed.skills"));
    if (!gone) return;
    forgetChoices("skills");
    for (const text of gone) notice(text, true);
    go("/skills");
  };
  return html`
    <h2 class="thing"><a class="back" href="/skills" aria-label=${t("skills.back")}>←</a> <bdi>${folder}</bdi> ${entry && html`<${State} of=${entry} />`}</h2>
    <${PolledStates} of=${polled} quiet=${true} />
    ${polled.value && !entry && html`<${Failure} title=${t("skills.no_folder")} />`}
    ${entry && html`
      ${entry.problem && html`<div class="failure in-place"><p dir="auto">${entry.problem}</p></div>`}
      <section class="card"><h2>${t("entry.title")}</h2>
        ${file && html`<p class="note">${t("source.from_file")}</p>`}
        <p>${t("skills.folder_help")}</p>
        <${ConfirmButton} label=${t("entry.remove")} question=${t("source.sure.skills")} act=${drop} /></section>`}
  `;
}
