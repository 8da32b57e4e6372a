// The rows of a chat in their order: messages, what is being said, and the runs between them. Pure.
import { filesOfContent, textOfContent } from "../components/content.js";

/**
 * @typedef {import("./conversation.js").Item} Item
 * @typedef {import("./live_run.js").LiveRun} LiveRun
 * @typedef {{key: string, kind: "person" | "agent" | "note" | "growing" | "run", at: number, message?: any, refs?: any[],
 *   about: number, event_id?: string | null, transcript_id?: string, cursor?: string, run_id?: string | null, waits?: "run" | "pull",
 *   sent?: import("./outbox.js").Sent, growing?: import("./live_run.js").Growing, live?: LiveRun, files?: any[], alone?: boolean}} Row
 * `about`: how high it is, in pixels, as long as it was not shown. `waits`: no run has taken it up. `sent`: on its way.
 * `alone`: the run that said it is not among the rows.
 */

const RUN_PIXELS = 30;
const LINE_PIXELS = 24;
/** Of a line, on a wide screen: also where a text is broken earlier. */
const LINE_CHARS = 70;
/** Of a text of a person more is only shown when it is asked for. */
export const SHOWN_CHARS = 6000;

/** @param {any} message */
function about(message) {
  const shown = Math.min(textOfContent(message?.content).length, message?.role === "assistant" ? Infinity : SHOWN_CHARS);
  return RUN_PIXELS + LINE_PIXELS * Math.ceil(shown / LINE_CHARS);
}

/** @param {Item} item @param {string} key @param {Row["kind"]} kind @returns {Row} */
const said = (item, key, kind) => ({
  key, kind, about: about(item.content_json), at: item.created_at, message: item.content_json, refs: item.artifact_refs, event_id: item.event_id,
  transcript_id: item.transcript_id, cursor: item.cursor, run_id: item.run_id,
});

/**
 * @param {{items: Item[], waiting: any[], runs: Iterable<LiveRun>, sent: import("./outbox.js").Sent[], files: any[], older: boolean, newer: boolean}} all
 * `older`, `newer`: whether there are items before and after these; runs at work, and what waits for one, are after those.
 * @returns {Row[]}
 */
export function rowsOf({ items, waiting, runs, sent, files, older, newer }) {
  /** @type {Row[]} */
  const rows = [];
  const counts = new Map(), last = new Map(), known = new Set(), stored = new Map(), shownFiles = new Set();
  for (const item of items) {
    if (item.role === "assistant") {
      const count = counts.get(item.run_id) ?? 0, counted = item.run_id && !item.paged; // pages that come before shift no number
      if (counted) counts.set(item.run_id, count + 1);
      stored.set(item.run_id, [...(stored.get(item.run_id) ?? []), sayingOf(item.content_json)]);
      rows.push(said(item, counted ? `a ${item.run_id} ${count}` : `m ${item.transcript_id}`, "agent"));
      last.set(item.run_id, rows.length - 1);
    } else if (item.role === "user") {
      rows.push(said(item, item.event_id && !item.paged && !known.has(item.event_id) ? `e ${item.event_id}` : `m ${item.transcript_id}`, "person"));
      if (item.event_id) {
        known.add(item.event_id);
        last.set(`e ${item.event_id}`, rows.length - 1);
      }
    } else rows.push(said(item, `m ${item.transcript_id}`, "note"));
    for (const file of filesOfContent(item.content_json?.content, item.artifact_refs)) shownFiles.add(file.artifact_id);
  }
  /** @type {Row[]} */
  const waits = (newer ? [] : waiting).filter((one) => !known.has(one.event_id)).map((one) => ({
    key: `e ${one.event_id}`, kind: "person", about: about(one.content_json), at: one.created_at, message: one.content_json, refs: one.artifact_refs, event_id: one.event_id,
    run_id: one.run_id, waits: one.waits_for,
  }));
  for (const one of waits) known.add(one.event_id);
  /** @type {Row[]} */
  const leaving = sent.filter((one) => !known.has(one.event_id)).map((one) => ({
    key: `e ${one.event_id}`, kind: "person", about: LINE_PIXELS, at: one.at, message: { content: one.text }, refs: one.attachments, event_id: one.event_id, sent: one,
  }));
  const pending = [...waits, ...leaving];
  /** @type {Row[]} */
  const end = [];
  /** @type {Map<number, Row[]>} rows that follow a row */
  const after = new Map();
  for (const live of [...runs].sort((a, b) => a.run.created_at - b.run.created_at)) {
    const block = rowsOfRun(live, counts, stored, files.filter((file) => file.run_id === live.run.run_id && !shownFiles.has(file.artifact_id)));
    const begun = pending.findIndex((row) => row.event_id === live.run.event_id);
    if (!live.over) {
      if (newer) continue;
      if (begun >= 0 && live.run.status !== "queued") end.push(...pending.splice(begun, 1));
      end.push(...block);
      continue;
    }
    let place = last.get(live.run.run_id) ?? last.get(`e ${live.run.event_id}`);
    if (place === undefined) {
      place = rows.findLastIndex((row) => row.at <= live.run.created_at);
      if ((place < 0 && (older || rows.length)) || (newer && place === rows.length - 1)) continue;
    }
    after.set(place, [...(after.get(place) ?? []), ...block]);
  }
  const whole = rows.flatMap((row, place) => [row, ...(after.get(place) ?? [])]);
  const all = [...(after.get(-1) ?? []), ...whole, ...end, ...pending], shown = new Set(all.map((row) => row.live?.run.run_id));
  for (const row of rows) row.alone = row.kind === "agent" && Boolean(row.run_id) && !shown.has(row.run_id ?? "");
  return all;
}

/** What a message says, as it is stored: without what the host replaces. @param {any} message */
const sayingOf = (message) => textOfContent(message?.content).replaceAll("\0", "");

/**
 * What a run has said that is not stored yet, what it is saying, and the run.
 * @param {LiveRun} live @param {Map<string, number>} counts @param {Map<string, string[]>} stored @param {any[]} files
 * @returns {Row[]}
 */
function rowsOfRun(live, counts, stored, files) {
  const { run } = live, found = [...(stored.get(run.run_id) ?? [])];
  let count = counts.get(run.run_id) ?? 0;
  /** @type {Row[]} */
  const rows = [];
  for (const { message } of live.said) {
    const place = found.indexOf(sayingOf(message));
    if (place >= 0) found.splice(place, 1);
    else rows.push({ key: `a ${run.run_id} ${count++}`, kind: "agent", about: about(message), at: run.created_at, message, refs: message.artifact_refs, run_id: run.run_id });
  }
  for (const growing of live.growing.values()) rows.push({ key: `a ${run.run_id} ${count++}`, kind: "growing", about: LINE_PIXELS, at: run.created_at, growing, run_id: run.run_id });
  if (run.status !== "queued") rows.push({ key: `r ${run.run_id}`, kind: "run", about: RUN_PIXELS, at: run.created_at, live, run_id: run.run_id, files });
  return rows;
}
