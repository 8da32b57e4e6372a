// What stands around every page: navigation, who has signed in, and notices.
import { html, useEffect, useLayoutEffect, useRef, useState } from "../lib/html.js";
import { loadTexts, t } from "../lib/i18n.js";
import { beginPauses, mine, more } from "../lib/live_pauses.js";
import { here, match } from "../lib/router.js";
import { may, session, signOut } from "../lib/session.js";
import { Icon } from "./icon.js";
import { Notices } from "./notice.js";
import { Failure, Loading } from "./states.js";

/**
 * @typedef {{name: string, patterns: string[], load: () => Promise<{Page: any}>, texts: string[], right?: string, icon?: string}} PageEntry
 * `texts`: the parts of them that its modules use, beside those of all pages. `right`: without it the page is not in the navigation. `icon`: without one neither.
 */

/** @type {PageEntry[]} */
const PAGES = [
  { name: "chat", patterns: ["/chat/:conversation_id", "/chat"], load: () => import("../pages/chat.js"), texts: ["chat"], icon: "chat" },
  { name: "runs", patterns: ["/", "/runs"], load: () => import("../pages/runs.js"), texts: ["runs", "first"], right: "runs:read", icon: "runs" },
  { name: "run", patterns: ["/runs/:run_id"], load: () => import("../pages/run.js"), texts: ["run", "runs", "approvals"] },
  { name: "compare", patterns: ["/runs/:run_id/compare", "/runs/:run_id/compare/:other_id"], load: () => import("../pages/compare.js"), texts: ["run"] },
  { name: "approvals", patterns: ["/approvals/:pause_id", "/approvals"], load: () => import("../pages/approvals.js"), texts: ["approvals"], right: "pauses:read", icon: "approvals" },
  { name: "agents", patterns: ["/agents/:name", "/agents"], load: () => import("../pages/agents.js"), texts: ["agents", "first"], right: "agents:read", icon: "agents" },
  { name: "plugins", patterns: ["/plugins/:plugin", "/plugins"], load: () => import("../pages/plugins.js"), texts: ["plugins", "sources"], right: "plugins:read", icon: "plugins" },
  {
    name: "resources",
    patterns: ["/tools", "/tools/:name", "/skills", "/skills/:name", "/mcp-servers", "/mcp-servers/:name", "/models/:name", "/models"],
    load: () => import("../pages/resources.js"), texts: ["resources", "plugins", "sources"], right: "models:read", icon: "models",
  },
  { name: "knowledge", patterns: ["/knowledge/:kb/:document", "/knowledge/:kb", "/knowledge"], load: () => import("../pages/knowledge.js"), texts: ["knowledge"], right: "knowledge:read", icon: "knowledge" },
  {
    name: "sources",
    patterns: ["/hooks/:name", "/hooks", "/schedules/:name", "/schedules", "/channels/:name", "/channels"],
    load: () => import("../pages/sources.js"), texts: ["sources"], right: "plugins:read", icon: "sources",
  },
  { name: "workers", patterns: ["/workers/:worker", "/workers"], load: () => import("../pages/workers.js"), texts: ["workers"], right: "workers:read", icon: "workers" },
  { name: "usage", patterns: ["/usage/:tab", "/usage"], load: () => import("../pages/usage.js"), texts: ["usage"], right: "usage:read", icon: "usage" },
  { name: "audit", patterns: ["/audit/:tab", "/audit"], load: () => import("../pages/audit.js"), texts: ["audit", "usage"], right: "audit:read", icon: "audit" },
  { name: "settings", patterns: ["/settings/:tab", "/settings"], load: () => import("../pages/settings.js"), texts: ["settings"], icon: "settings" },
];

/** @param {string} path */
const pageAt = (path) => {
  for (const page of PAGES) {
    for (const pattern of page.patterns) {
      const found = match(pattern, path);
      if (found) return { page, parameters: found };
    }
  }
  return null;
};

/** @param {string} path */
export const isPage = (path) => pageAt(path) !== null;

export function Shell() {
  const who = session.value && `${session.value.session_id} ${session.value.workspace_id}`;
  useEffect(() => (who ? beginPauses() : undefined), [who]);
  if (session.value === null) return html`<${Lazy} load=${() => import("../pages/sign_in.js")} texts=${["sign_in"]} name="sign_in" /><${Notices} />`;
  const found = pageAt(here.value.path);
  return html`
    <a class="skip" href="#main" onClick=${skip}>${t("shell.skip")}</a>
    <${Navigation} current=${found?.page.name} />
    <main id="main" tabindex="-1">
      ${found
        ? html`<${Lazy} key=${found.page.name} load=${found.page.load} texts=${found.page.texts} name=${found.page.name} parameters=${found.parameters} />`
        : html`<${Failure} title=${t("shell.no_page")} text=${t("shell.no_page_text", { path: here.value.path })} />`}
    </main>
    <${Notices} />
  `;
}

/** @param {Event} event */
function skip(event) {
  event.preventDefault();
  document.getElementById("main")?.focus();
}

/** @param {{current: string | undefined}} props */
function Navigation({ current }) {
  useEffect(() => document.querySelector(".navigation [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" }), [current]);
  const links = PAGES.filter((page) => page.icon && (!page.right || may(page.right)));
  const list = useRef(/** @type {HTMLElement | null} */ (null));
  useLayoutEffect(() => {
    // on a phone there may be more pages than fit
    const chosen = list.current?.querySelector("[aria-current]")?.parentElement;
    if (list.current && chosen) list.current.scrollLeft = chosen.offsetLeft - list.current.clientWidth / 2;
  }, [current]);
  return html`
    <nav class="navigation" aria-label=${t("shell.navigation")}>
      <a class="brand" href="/"><${Icon} name="mark" /><span>Hostler</span></a>
      <ul ref=${list}>
        ${links.map(
          (page) => html`<li key=${page.name}>
            <a href=${page.patterns.at(-1)} aria-current=${page.name === current ? "page" : null}>
              <${Icon} name=${/** @type {string} */ (page.icon)} /><span>${t(`page.${page.name}`)}</span>
              ${page.name === "approvals" && mine.value.length > 0 && html`<${Waiting} />`}
            </a>
          </li>`,
        )}
      </ul>
      <div class="person">
        <span class="who" title=${session.value?.subject}>${session.value?.name}</span>
        <button class="quiet sign-out" onClick=${signOut}>
          <${Icon} name="leave" /><span>${t("shell.sign_out")}</span>
        </button>
      </div>
    </nav>
  `;
}

/** How much waits for the person. */
const Waiting = () => html`<b class="waiting-count" aria-label=${t("shell.waiting", { count: mine.value.length })}>${waitingCount()}</b>`;

const waitingCount = () => `${mine.value.length}${more.value ? "+" : ""}`;

/**
 * A page whose module is loaded when it is first shown.
 * @param {{load: () => Promise<{Page: any}>, texts: string[], name: string, parameters?: Record<string, string>}} props
 */
function Lazy({ load, texts, name, parameters = {} }) {
  const [page, setPage] = useState(/** @type {{Page: any} | Error | null} */ (null));
  useEffect(() => {
    let gone = false;
    Promise.all([load(), loadTexts(texts)]).then(
      ([found]) => gone || setPage(found),
      (error) => gone || setPage(error),
    );
    return () => void (gone = true);
  }, []);
  void mine.value; // the title says how much waits
  useEffect(() => {
    document.title = `${mine.value.length && session.value ? `(${waitingCount()}) ` : ""}${t(`page.${name}`)} · Hostler`;
  });
  if (page === null) return html`<${Loading} />`;
  // a host of another version has other files: the page is loaded anew
  if (page instanceof Error) return html`<${Failure} title=${t("shell.new_version")} retry=${() => location.reload()} />`;
  return html`<${page.Page} ...${parameters} />`;
}
