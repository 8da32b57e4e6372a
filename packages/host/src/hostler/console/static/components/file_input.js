// Files by button, drop and paste, and how far each has come.
import { html, useRef, useState } from "../lib/html.js";
import { plainName, size } from "../lib/format.js";
import { t } from "../lib/i18n.js";
import { Icon } from "./icon.js";
import { notice } from "./notice.js";
import { reasonOf } from "./states.js";

/** @typedef {ReturnType<typeof import("../lib/uploads.js").uploads>} Uploads */

/** @param {Uploads} uploads @param {Iterable<File>} files */
function take(uploads, files) {
  if (uploads.add(files)) notice(t("files.too_many", { most: uploads.most }), true);
}

/** For a file that the page has no longer. @param {{chosen: (file: File) => void}} props */
function ChooseAgain({ chosen }) {
  const field = useRef(/** @type {HTMLInputElement | null} */ (null));
  return html`
    <button type="button" class="quiet" onClick=${() => field.current?.click()}>${t("files.again")}</button>
    <input ref=${field} type="file" hidden onChange=${() => field.current?.files?.[0] && chosen(field.current.files[0])} />
  `;
}

/** Opens the browser's dialog. @param {{uploads: Uploads, label?: string, accept?: string, multiple?: boolean}} props */
export function FileButton({ uploads, label, accept, multiple = true }) {
  const field = useRef(/** @type {HTMLInputElement | null} */ (null));
  const chosen = () => {
    if (!field.current) return;
    take(uploads, field.current.files ?? []);
    field.current.value = "";
  };
  return html`
    <button type="button" class="quiet" aria-label=${label ?? t("files.add")} title=${label ?? t("files.add")} onClick=${() => field.current?.click()}>
      <${Icon} name="attach" />
    </button>
    <input ref=${field} type="file" hidden multiple=${multiple} accept=${accept} onChange=${chosen} />
  `;
}

/**
 * What takes files that are dropped on it or pasted into it.
 * @param {{uploads: Uploads | null, children?: any, class?: string}} props `uploads`: null where none are taken
 */
export function FileTarget({ uploads, children, class: name = "" }) {
  const [over, setOver] = useState(false);
  const holds = (/** @type {DragEvent} */ event) => uploads !== null && (event.dataTransfer?.types.includes("Files") ?? false);
  return html`
    <div class=${`file-target ${over ? "over" : ""} ${name}`}
      onDragOver=${(/** @type {DragEvent} */ event) => {
        if (!holds(event)) return;
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave=${(/** @type {DragEvent} */ event) => {
        if (!(/** @type {Element} */ (event.currentTarget).contains(/** @type {Node | null} */ (event.relatedTarget)))) setOver(false);
      }}
      onDrop=${(/** @type {DragEvent} */ event) => {
        if (!holds(event) || !uploads) return;
        event.preventDefault();
        setOver(false);
        take(uploads, event.dataTransfer?.files ?? []);
      }}
      onPaste=${(/** @type {ClipboardEvent} */ event) => {
        const files = event.clipboardData?.files ?? [];
        if (!files.length || !uploads) return;
        event.preventDefault();
        take(uploads, files);
      }}
    >
      ${children}
      ${over && html`<p class="drop-here" aria-hidden="true">${t("files.drop")}</p>`}
    </div>
  `;
}

/** The files that were added. @param {{uploads: Uploads}} props */
export function FileList({ uploads }) {
  const list = uploads.list.value;
  if (!list.length) return null;
  return html`
    <ul class="files" aria-label=${t("files.list")}>
      ${list.map((one) => html`
        <li key=${one.key} class=${one.error ? "file bad" : "file"}>
          ${one.preview ? html`<img src=${one.preview} alt="" />` : html`<${Icon} name="file" />`}
          <span class="file-name"><bdi>${plainName(one.name)}</bdi>
            <span class="dim">${one.error ? reasonOf(one.error) : one.artifact ? size(one.size) : t("files.sent", { sent: size(one.sent), all: size(one.size) })}</span>
          </span>
          ${Boolean(one.error) && (one.file
            ? html`<button type="button" class="quiet" onClick=${() => uploads.retry(one.key)}>${t("state.retry")}</button>`
            : html`<${ChooseAgain} chosen=${(/** @type {File} */ file) => uploads.replace(one.key, file)} />`)}
          <button type="button" class="quiet" aria-label=${t("files.drop_one", { name: one.name.slice(0, 60) })} onClick=${() => uploads.drop(one.key)}><${Icon} name="close" /></button>
          ${!one.artifact && !one.error && html`<progress max=${Math.max(1, one.size)} value=${one.sent} aria-label=${t("files.progress", { name: one.name.slice(0, 60) })} />`}
        </li>
      `)}
    </ul>
  `;
}
