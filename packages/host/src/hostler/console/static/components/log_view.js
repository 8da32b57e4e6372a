// A log as it grows: followed, filtered, downloaded.
import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { MOST_LINES, liveLog } from "../lib/live_log.js";
import { here, setQuery } from "../lib/router.js";
import { Failure } from "./states.js";

const OWN = "-- hostler: ";
const NEAR_PIXELS = 30;
const NOTHING = /** @type {import("../lib/live_log.js").Line[]} */ ([]);

/** @param {{plugin: string}} props */
export function LogView({ plugin }) {
  const log = useMemo(() => liveLog(plugin), [plugin]);
  useEffect(() => log.stop, [log]);
  const [follows, setFollows] = useState(true);
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const wanted = here.value.query.get("find") ?? "";
  const { value, error, connected } = log.state.value;
  const lines = value?.lines ?? NOTHING;
  const shown = useMemo(() => {
    const text = wanted.toLowerCase();
    return text ? lines.filter((line) => line.text.toLowerCase().includes(text)) : lines;
  }, [lines, wanted]);
  useLayoutEffect(() => {
    if (follows && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [shown, follows]);
  const scrolled = () => {
    const at = /** @type {HTMLElement} */ (box.current);
    setFollows(at.scrollHeight - at.scrollTop - at.clientHeight < NEAR_PIXELS);
  };
  if (error) return html`<${Failure} error=${error} />`;
  return html`
    <div class="log-bar">
      <input type="search" aria-label=${t("log.find")} placeholder=${t("log.find")} value=${wanted}
        onInput=${(/** @type {any} */ event) => setQuery({ find: event.target.value })} />
      <label class="check"><input type="checkbox" checked=${follows} onChange=${(/** @type {any} */ event) => setFollows(event.target.checked)} /> ${t("log.follow")}</label>
      <button disabled=${!lines.length} onClick=${() => save(`${plugin.replace("/", "-")}.log`, shown.map((line) => line.text).join("\n") + "\n")}>${t("log.download")}</button>
      <span class="dim" role="status">${connected ? t("log.count", { count: shown.length }) : t("state.reconnecting")}</span>
    </div>
    <div class="log" ref=${box} onScroll=${scrolled} role="log" aria-live="off" aria-label=${t("log.label")} tabindex="0">
      ${value?.skipped && html`<p class="dim">${t("log.skipped", { most: MOST_LINES })}</p>`}
      ${value && !shown.length && html`<p class="dim">${wanted ? t("log.no_match") : t("log.none")}</p>`}
      ${shown.map((line) => html`<div key=${line.number} class=${line.text.startsWith(OWN) ? "own" : null} dir="auto">${line.text || " "}</div>`)}
    </div>
  `;
}

/** Have the browser keep a text as a file. @param {string} name @param {string} text */
function save(name, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
