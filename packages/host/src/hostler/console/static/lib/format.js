// Times, numbers and sizes as the reader's language writes them.
import { language } from "./i18n.js";

/** @type {Map<string, any>} */
const made = new Map();

/** @template T @param {string} name @param {(language: string) => T} make @returns {T} */
function of(name, make) {
  const key = `${language.value} ${name}`;
  if (!made.has(key)) made.set(key, make(language.value));
  return made.get(key);
}

const STEPS = /** @type {[number, Intl.RelativeTimeFormatUnit][]} */ ([
  [60, "second"], [3600, "minute"], [86400, "hour"], [86400 * 30, "day"], [86400 * 365, "month"],
]);

/** How long ago: `3 minutes ago`. @param {number} at UTC epoch seconds */
export function ago(at, now = Date.now() / 1000) {
  const format = of("ago", (lang) => new Intl.RelativeTimeFormat(lang, { numeric: "auto", style: "short" }));
  const seconds = Math.max(0, now - at);
  let size = 1;
  for (const [below, unit] of STEPS) {
    if (seconds < below) return format.format(-Math.floor(seconds / size), unit);
    size = below;
  }
  return format.format(-Math.floor(seconds / (86400 * 365)), "year");
}

/** Date and time. @param {number} at UTC epoch seconds */
export const moment = (at) =>
  of("moment", (lang) => new Intl.DateTimeFormat(lang, { dateStyle: "medium", timeStyle: "medium" })).format(at * 1000);

/** Time of the day. @param {number} at UTC epoch seconds */
export const clock = (at) =>
  of("clock", (lang) => new Intl.DateTimeFormat(lang, { timeStyle: "medium" })).format(at * 1000);

/** @param {number} value */
export const number = (value) => of("number", (lang) => new Intl.NumberFormat(lang)).format(value);

/** Short for large ones: `12K`. @param {number} value */
export const short = (value) =>
  of("short", (lang) => new Intl.NumberFormat(lang, { notation: "compact", maximumFractionDigits: 1 })).format(value);

/** A length of time: `850 ms`, `3.2 s`, `4 min 10 s`, `2 h 5 min`. @param {number} seconds */
export function duration(seconds) {
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.floor(seconds % 60)} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
}

/** Money in the currency of the models' prices, which the host does not know. @param {number} value */
export const money = (value) =>
  of("money", (lang) => new Intl.NumberFormat(lang, { maximumSignificantDigits: 3 })).format(value);

/** @param {number} bytes */
export function size(bytes) {
  let value = bytes;
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (value < 1024 || unit === "GiB") return `${value < 10 && unit !== "B" ? value.toFixed(1) : Math.round(value)} ${unit}`;
    value /= 1024;
  }
  return "";
}

const TURNS = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/** A name without the characters that turn its direction, by which `exe.txt` would look like another file. @param {string} name */
export const plainName = (name) => name.replace(TURNS, "\ufffd");
