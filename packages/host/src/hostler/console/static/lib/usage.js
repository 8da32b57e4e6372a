// Periods, and the series of /v1/usage/series as charts take them: pure.

export const DAY = 86400;
/** The periods to choose from, in seconds. @type {[string, number][]} */
export const PERIODS = [["day", DAY], ["week", 7 * DAY], ["month", 30 * DAY], ["quarter", 90 * DAY], ["year", 365 * DAY]];
export const GROUPINGS = ["agent", "model", "person", "workspace"];
const DATE = /^\d{4}-\d\d-\d\d$/;
const MONDAY = 3 * DAY;

/**
 * The period of an address: `?period=week`, or `?from=2026-01-01&until=2026-01-31` (UTC, both included).
 * @param {URLSearchParams} query @param {number} now UTC epoch seconds
 * @returns {{name: string, since: number, until: number}}
 */
export function periodOf(query, now) {
  const from = dateOf(query.get("from")), until = dateOf(query.get("until"));
  if (from !== null && until !== null && from <= until) return { name: "own", since: from, until: Math.min(until + DAY, Math.max(now, from)) };
  const [name, seconds] = PERIODS.find(([known]) => known === query.get("period")) ?? PERIODS[2];
  return { name, since: now - seconds, until: now };
}

/** Midnight of a date in UTC, or null. @param {string | null} text */
function dateOf(text) {
  const at = text && DATE.test(text) ? Date.parse(`${text}T00:00:00Z`) : NaN;
  return Number.isNaN(at) || at < 0 ? null : at / 1000;
}

/** The date of a moment in UTC. @param {number} at UTC epoch seconds */
export const isoDate = (at) => new Date(at * 1000).toISOString().slice(0, 10);

/** Where each step of a period begins. @param {{since: number, until: number, step: number}} report @returns {number[]} */
export function timesOf({ since, until, step }) {
  const shift = step === 7 * DAY ? MONDAY : 0, found = [];
  for (let at = Math.floor((since + shift) / step) * step - shift; at <= until && found.length < 1000; at += step) found.push(at);
  return found;
}

/**
 * A value for each step. `empty`: of steps without anything.
 * @param {{at: number}[]} points @param {number[]} times @param {(point: any) => number | null} value @param {number | null} empty
 */
export function along(points, times, value, empty) {
  const by = new Map(points.map((point) => [point.at, point]));
  return times.map((at) => (by.has(at) ? value(by.get(at)) : empty));
}

/** Tokens in and out; null: unknown. @param {any} figures @returns {number | null} */
export function tokensOf(figures) {
  const parts = [figures.input_tokens, figures.output_tokens].filter((count) => count !== null);
  return parts.length ? parts.reduce((sum, count) => sum + count, 0) : figures.total_tokens;
}

/** Runs that failed, of those that are over in some way. @param {any} figures */
export const failureShare = (figures) => {
  const over = figures.completed + figures.failed;
  return over ? figures.failed / over : null;
};
