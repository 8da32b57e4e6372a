// Two texts or values side by side, with what differs marked; above each other where there is little room.
import { html, useMemo, useState } from "../lib/html.js";
import { comparable, lines, words } from "../lib/diff.js";
import { t } from "../lib/i18n.js";

/** @typedef {import("../lib/diff.js").Line} Line */

const AROUND = 3;
const MAX_ROWS = 1500;
const MAX_LINE_CHARS = 4000;

/**
 * Values that are no text are compared as JSON, whose names are sorted. `labels` name the sides.
 * @param {{before: any, after: any, labels?: [string, string]}} props
 */
export function Diff({ before, after, labels }) {
  const [whole, setWhole] = useState(false);
  const [left, right] = [comparable(before), comparable(after)];
  const found = useMemo(() => lines(left, right), [left, right]);
  if (left === right) return html`<p class="dim">${t("diff.same")}</p>`;
  const rows = whole ? found.map((line) => ({ line, hidden: 0 })) : folded(found);
  return html`
    <div class="diff" role="table" tabindex="0" aria-label=${t("diff.label")}>
      ${labels && html`<div class="diff-row diff-head" role="row">
        <span role="columnheader" dir="auto">${labels[0]}</span><span role="columnheader" dir="auto">${labels[1]}</span>
      </div>`}
      ${rows.slice(0, MAX_ROWS).map(({ line, hidden }, at) => line === null
        ? html`<div key=${at} role="row"><span role="cell" aria-colspan="2"><button class="quiet wide" onClick=${() => setWhole(true)}>${t("diff.equal", { count: hidden })}</button></span></div>`
        : html`<${Row} key=${at} line=${line} />`)}
      ${rows.length > MAX_ROWS && html`<div role="row"><span class="dim" role="cell" aria-colspan="2">${t("diff.more", { count: rows.length - MAX_ROWS })}</span></div>`}
    </div>
  `;
}

/** @param {{line: Line}} props */
function Row({ line }) {
  const [left, right] = line.kind === "changed" ? words(cut(line.left), cut(line.right)) : [[[cut(line.left), false]], [[cut(line.right), false]]];
  return html`
    <div class="diff-row ${line.kind}" role="row">
      <${Side} kind=${line.kind === "new" ? "none" : line.kind === "same" ? "same" : "gone"} number=${line.leftNumber} pieces=${left} />
      <${Side} kind=${line.kind === "gone" ? "none" : line.kind === "same" ? "same" : "new"} number=${line.rightNumber} pieces=${right} />
    </div>
  `;
}

const SIGNS = /** @type {Record<string, string>} */ ({ gone: "−", new: "+", same: " ", none: " " });

/** @param {{kind: string, number: number, pieces: any[]}} props */
const Side = ({ kind, number, pieces }) => html`
  <span class="diff-side ${kind}" role="cell" dir="auto">
    <span class="diff-number" aria-hidden="true">${number || ""}</span><span class="diff-sign">${SIGNS[kind]}</span>
    <span class="diff-text">${pieces.map(([text, differs]) => (differs ? html`<mark>${text}</mark>` : text))}</span>
  </span>
`;

/** @param {string | null} text */
const cut = (text) => (text === null ? "" : text.length > MAX_LINE_CHARS ? `${text.slice(0, MAX_LINE_CHARS)} …` : text);

/** The lines around changes; `hidden` equal ones in the place of the others. @param {Line[]} found */
function folded(found) {
  const near = new Uint8Array(found.length);
  for (const [at, line] of found.entries()) {
    if (line.kind !== "same") near.fill(1, Math.max(0, at - AROUND), at + AROUND + 1);
  }
  /** @type {{line: Line | null, hidden: number}[]} */
  const rows = [];
  for (const [at, line] of found.entries()) {
    const last = rows.at(-1);
    if (near[at]) rows.push({ line, hidden: 0 });
    else if (last && last.line === null) last.hidden++;
    else rows.push({ line: null, hidden: 1 });
  }
  return rows;
}
