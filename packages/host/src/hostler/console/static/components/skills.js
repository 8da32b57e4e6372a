// The skills, and one of them: its files, their content, and the confirmation.
import { html, useEffect, useState } from "../lib/html.js";
import { Problem, get, path, post } from "../lib/api.js";
import { brief } from "../lib/brief.js";
import { moment, size } from "../lib/format.js";
import { t } from "../lib/i18n.js";
import { Markdown } from "../lib/markdown.js";
import { usePolled } from "../lib/polled.js";
import { address, here, setQuery } from "../lib/router.js";
import { may } from "../lib/session.js";
import { attempt } from "./notice.js";
import { PolledStates } from "./polled_states.js";
import { Empty, Failure, Loading } from "./states.js";
import { Table } from "./table.js";
import { Text } from "./text.js";
import { lazy } from "./lazy.js";

const SkillFolders = lazy(() => import("./skill_folders.js").then((module) => module.SkillFolders));
const SkillFolder = lazy(() => import("./skill_folders.js").then((module) => module.SkillFolder));

/** @param {{name?: string}} props */
export function Section({ name }) {
  const folder = here.value.query.get("folder");
  if (name !== undefined) return html`<${Skill} key=${name} name=${name} />`;
  return may("installation") && (folder !== null || here.value.query.has("new")) ? html`<${SkillFolder} key=${folder} path=${folder} />` : html`<${List} />`;
}

/** @param {any} skill */
const changed = (skill) => Boolean(skill.digest && skill.confirmed_digest && skill.digest !== skill.confirmed_digest);

/** @param {{skill: any}} props */
const State = ({ skill }) => html`<span class="status ${skill.problem ? (changed(skill) ? "waits" : "bad") : "good"}">${t(skill.problem ? (changed(skill) ? "skills.waits" : "skills.left_out") : "skills.ready")}</span>`;

function List() {
  const polled = usePolled((signal) => get("/v1/skills", {}, signal).then((page) => page.items), []);
  const skills = polled.value;
  return html`
    <div class="section-head"><p class="dim grow">${t("skills.help")}</p>${may("installation") && html`<a class="button" href="/skills?new=">${t("source.new.skills")}</a>`}</div>
    <${PolledStates} of=${polled} />
    ${skills?.length === 0 && html`<${Empty} title=${t("skills.none")} text=${t("skills.none_text")}><pre class="commands">hostler skills add ./skills</pre><//>`}
    ${skills && skills.length > 0 && html`<${Table} label=${t("resources.skills")} rows=${skills} keyOf=${(/** @type {any} */ one) => one.source} columns=${[
      { key: "name", label: t("skills.skill"), wide: true, cell: (/** @type {any} */ one) => html`<span><a href=${address("skills", one.name)}><bdi>${one.name}</bdi></a> <span class="dim">${one.version ?? ""}</span><br /><span class=${`clamp ${one.problem ? "wrong" : "dim"}`} dir="auto">${brief(one.problem ?? one.description)}</span></span>` },
      { key: "problem", label: t("tools.state"), cell: (/** @type {any} */ one) => html`<${State} skill=${one} />` },
      { key: "files", label: t("skills.files"), figures: true, value: (/** @type {any} */ one) => one.files.length, cell: (/** @type {any} */ one) => one.files.length },
      { key: "source", label: t("skills.source"), cell: (/** @type {any} */ one) => html`<code>${one.source}</code>` },
    ]} />`}
    ${may("installation") && html`<${SkillFolders} />`}
  `;
}

/** @param {{name: string}} props */
function Skill({ name }) {
  const polled = usePolled((signal) => get(path("skills", name), {}, signal), [name]);
  const skill = polled.value;
  const confirm = () => attempt(() => post(path("skills", name, "confirm"), { digest: skill.digest }), t("skills.confirmed")).then(polled.again);
  return html`
    <h2 class="thing"><a class="back" href="/skills" aria-label=${t("skills.back")}>←</a> <bdi>${name}</bdi> ${skill && html`<${State} skill=${skill} />`}</h2>
    <${PolledStates} of=${polled} quiet=${true} />
    ${skill && html`
      ${skill.problem && !changed(skill) && html`<div class="failure in-place"><p dir="auto">${skill.problem}</p></div>`}
      ${changed(skill) && html`
        <section class="card attention">
          <h2>${t("skills.changed")}</h2>
          <p>${t("skills.changed_help")}</p>
          <dl class="facts"><dt>${t("skills.confirmed_digest")}</dt><dd><code>${skill.confirmed_digest}</code></dd><dt>${t("skills.digest")}</dt><dd><code>${skill.digest}</code></dd></dl>
          ${may("installation") ? html`<button class="primary" onClick=${confirm}>${t("skills.confirm")}</button>` : html`<p class="dim">${t("waiting.right")}</p>`}
        </section>`}
      <section class="card">
        <${Text} text=${skill.description} />
        <dl class="facts">
          <dt>${t("skills.version")}</dt><dd dir="auto">${skill.version ?? "–"}</dd>
          <dt>${t("skills.source")}</dt><dd><code>${skill.source}</code></dd>
          ${skill.recorded_at && html`<dt>${t("skills.recorded")}</dt><dd>${moment(skill.recorded_at / 1000)}</dd>`}
          ${skill.confirmed_at && html`<dt>${t("skills.confirmed_at")}</dt><dd dir="auto">${t("pin.by", { who: skill.confirmed_by, moment: moment(skill.confirmed_at / 1000) })}</dd>`}
        </dl>
      </section>
      ${skill.files.length > 0 && html`<${Files} skill=${skill} />`}
    `}
  `;
}

/** @param {{skill: any}} props */
function Files({ skill }) {
  const chosen = here.value.query.get("file") ?? "SKILL.md";
  return html`
    <section class="card">
      <h2>${t("skills.files")}</h2>
      <div class="skill-grid">
        <ul class="plain-list skill-files">
          ${skill.files.map((/** @type {any} */ file) => html`<li key=${file.path}>
            <a href=${`${address("skills", skill.name)}?${new URLSearchParams({ file: file.path })}`} aria-current=${file.path === chosen ? "true" : null}
              onClick=${(/** @type {Event} */ event) => (event.preventDefault(), setQuery({ file: file.path }))}><bdi>${file.path}</bdi></a> <span class="dim">${size(file.size_bytes)}</span>
          </li>`)}
        </ul>
        <${File} key=${`${chosen} ${skill.digest}`} skill=${skill.name} file=${chosen} />
      </div>
    </section>
  `;
}

/** @param {{skill: string, file: string}} props */
function File({ skill, file }) {
  const [found, setFound] = useState(/** @type {any} */ (null));
  useEffect(() => {
    const abort = new AbortController();
    get(path("skills", skill, "file"), { path: file }, abort.signal).then(setFound, (error) => abort.signal.aborted || setFound(error));
    return () => abort.abort();
  }, []);
  if (found === null) return html`<${Loading} />`;
  if (found instanceof Problem || found instanceof Error) return html`<${Failure} error=${found} />`;
  if (found.text === null) return html`<p class="dim">${t("skills.binary", { size: size(found.size_bytes) })}</p>`;
  const cut = found.truncated && html`<p class="dim">${t("skills.cut", { size: size(found.size_bytes) })}</p>`;
  return html`<div class="grow">${cut}${file.toLowerCase().endsWith(".md") && !found.truncated ? html`<${Markdown} text=${found.text.replace(/^---\n[^]*?\n---\n/, "")} />` : html`<pre class="plain" dir="auto" tabindex="0">${found.text}</pre>`}</div>`;
}
