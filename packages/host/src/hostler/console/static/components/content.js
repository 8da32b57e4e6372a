// What a message holds beside text: pictures, sound, and files, of the host alone.
import { html, useState } from "../lib/html.js";
import { path } from "../lib/api.js";
import { plainName, size } from "../lib/format.js";
import { t } from "../lib/i18n.js";
import { Icon } from "./icon.js";

/** @typedef {{artifact_id: string, name?: string | null, mime_type?: string | null, size_bytes?: number | null}} FileRef */

const PICTURE = /^image\/(png|jpeg|gif|webp|avif|bmp|svg\+xml)$/;
const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/;

/** The text of a content. @param {any} content @returns {string} */
export function textOfContent(content) {
  if (typeof content === "string") return content;
  return (content ?? []).flatMap((/** @type {any} */ part) => (part?.type === "text" ? [part.text] : [])).join("\n");
}

/**
 * The files of a message: those of its content, and those that it refers to.
 * @param {any} content @param {FileRef[]} refs @returns {any[]}
 */
export function filesOfContent(content, refs = []) {
  const parts = typeof content === "string" ? [] : (content ?? []).filter((/** @type {any} */ part) => part && part.type !== "text");
  const own = new Set(parts.map((/** @type {any} */ part) => part.artifact_id));
  return [...parts.map((/** @type {any} */ part) => ({ ...part, name: part.file_name ?? part.name })), ...refs.filter((ref) => !own.has(ref.artifact_id))];
}

/** @param {{files: any[]}} props */
export const Files = ({ files }) =>
  files.length ? html`<ul class="shown-files">${files.map((file, place) => html`<li key=${file.artifact_id ?? place}><${OneFile} file=${file} /></li>`)}</ul>` : null;

/** @param {{file: any}} props */
function OneFile({ file }) {
  const [gone, setGone] = useState(false);
  const name = plainName(file.name || t("content.file")), kind = file.mime_type ?? "";
  if (file.image_url) return html`<${Elsewhere} url=${file.image_url.url} label=${t("content.picture")} />`;
  if (file.file_url) return html`<${Elsewhere} url=${file.file_url} label=${name} />`;
  const inline = file.image_base64 ?? file.file_base64;
  const url = file.artifact_id ? path("artifacts", file.artifact_id, "content") : inlineUrl(inline, kind || "image/png");
  if (!url) return html`<span class="file"><${Icon} name="file" /><bdi>${name}</bdi></span>`;
  if ((PICTURE.test(kind) || file.image_base64) && !gone) {
    return html`<a class="picture" href=${url} target="_blank" rel="noopener" download=${name}><img src=${url} alt=${name} loading="lazy" onError=${() => setGone(true)} /></a>`;
  }
  if (/^audio\//.test(kind) && !gone) return html`<audio controls preload="none" src=${url} aria-label=${name} onError=${() => setGone(true)}></audio>`;
  if (/^video\//.test(kind) && !gone) return html`<video controls preload="none" src=${url} aria-label=${name} onError=${() => setGone(true)}></video>`;
  return html`<a class="file" href=${url} download=${name}>
    <${Icon} name="file" /><span class="file-name"><bdi>${name}</bdi><span class="dim">${[kind, file.size_bytes ? size(file.size_bytes) : ""].filter(Boolean).join(" · ")}</span></span>
  </a>`;
}

/** @param {string | undefined} bytes @param {string} kind */
const inlineUrl = (bytes, kind) => (bytes && BASE64.test(bytes.slice(0, 1000)) && PICTURE.test(kind) ? `data:${kind};base64,${bytes}` : "");

/** Something of another host: it is not fetched, and only followed by hand. @param {{url: unknown, label: string}} props */
function Elsewhere({ url, label }) {
  const text = String(url);
  if (!/^https?:\/\//i.test(text)) return html`<span class="file"><${Icon} name="file" /><bdi>${label}</bdi></span>`;
  return html`<a class="file" href=${text} target="_blank" rel="noopener noreferrer nofollow"><${Icon} name="file" />
    <span class="file-name"><bdi>${label}</bdi><bdi class="dim">${text.slice(0, 200)}</bdi></span></a>`;
}
