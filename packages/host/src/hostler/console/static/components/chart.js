// Numbers over time, drawn by uPlot. The same numbers are a table for those who do not see the picture.
import uPlot from "../vendor/uplot.js";
import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../lib/html.js";
import { language, t } from "../lib/i18n.js";
import { theme } from "../lib/theme.js";
import { Table } from "./table.js";

/**
 * @typedef {{name: string, values: (number | null)[]}} Series
 * One line, or one part of the bars: a value, or null, for each of the times.
 * @typedef {{label: string, times: number[], series: Series[], format: (value: number) => string, step: number,
 *   stacked?: boolean, total?: (values: (number | null)[]) => number | null}} ChartProps
 * `times`: where each period begins, UTC epoch seconds; `step`: its length in seconds. `stacked`: bars one on another, or
 * else lines. `total`: of one series, for the legend.
 */

export const MOST_SERIES = 8;
const HEIGHT = 190;
const DAY = 86400;

/** The part of the colours of `console.css` that charts use. @param {Element} element */
function colours(element) {
  const style = getComputedStyle(element), of = (/** @type {string} */ name) => style.getPropertyValue(name).trim();
  return { text: of("--dim"), line: of("--line"), series: Array.from({ length: MOST_SERIES }, (_, place) => of(`--series-${place + 1}`)) };
}

/** How a period is written: days by their date (UTC, as they are summed), shorter ones by local time. @param {number} step */
export function periodFormat(step) {
  /** @type {Intl.DateTimeFormatOptions} */
  const options = step >= DAY ? { month: "short", day: "numeric", timeZone: "UTC" } : { month: "short", day: "numeric", hour: "numeric", minute: "2-digit" };
  const made = new Intl.DateTimeFormat(language.value, options);
  return (/** @type {number} */ at) => made.format(at * 1000);
}

/** The values as they are drawn: with `stacked`, each on those before it. @param {Series[]} series @param {boolean} stacked */
export function heaped(series, stacked) {
  if (!stacked) return series.map((one) => one.values);
  /** @type {(number | null)[][]} */
  const found = [];
  for (const one of series) {
    const below = found.at(-1);
    found.push(one.values.map((value, place) => (value ?? 0) + (below?.[place] ?? 0)));
  }
  return found;
}

/** @param {number | null} value @param {(value: number) => string} format */
const written = (value, format) => (value === null || value === undefined ? "–" : format(value));

/** @param {ChartProps} props */
export function Chart({ label, times, series, format, step, stacked = false, total }) {
  const frame = useRef(/** @type {HTMLElement | null} */ (null));
  const [at, setAt] = useState(/** @type {number | null} */ (null));
  const [asTable, setAsTable] = useState(false);
  const dark = useDark(), period = useMemo(() => periodFormat(step), [step, language.value]);
  useLayoutEffect(() => {
    const element = frame.current;
    if (!element || asTable || !times.length) return undefined;
    const chart = draw(element, { label, times, series, format, step, stacked }, period, setAt);
    const observer = new ResizeObserver(() => {
      if (element.clientWidth && element.clientWidth !== chart.width) chart.setSize({ width: element.clientWidth, height: HEIGHT });
    });
    observer.observe(element);
    return () => {
      observer.disconnect();
      chart.destroy();
    };
  }, [times, series, format, step, stacked, dark, period, asTable]);
  return html`
    <figure class="chart" aria-label=${label}>
      <figcaption>
        <h2>${label}</h2>
        <span class="dim" aria-live="off">${at === null ? "" : period(times[at])}</span>
        <button class="quiet" aria-expanded=${asTable} onClick=${() => setAsTable(!asTable)}>${t(asTable ? "chart.picture" : "chart.table")}</button>
      </figcaption>
      ${asTable
        ? html`<${Numbers} label=${label} times=${times} series=${series} format=${format} period=${period} />`
        : html`<div class="canvas" ref=${frame} role="img" aria-label=${described({ label, times, series, format, step, total }, period)} />`}
      <ul class="legend">
        ${series.map((one, place) => html`<li key=${one.name}>
          <span class="swatch series-${(place % MOST_SERIES) + 1}" aria-hidden="true"></span><bdi class="legend-name">${one.name}</bdi>
          <strong>${written(at === null ? (total?.(one.values) ?? null) : one.values[at], format)}</strong>
        </li>`)}
      </ul>
    </figure>
  `;
}

/** What the picture shows, in a sentence. @param {ChartProps} props @param {(at: number) => string} period */
function described({ label, times, series, format, total }, period) {
  if (!times.length) return t("chart.empty", { label });
  const parts = series.map((one) => `${one.name.slice(0, 80)} ${written(total?.(one.values) ?? null, format)}`);
  return t("chart.described", { label, from: period(times[0]), to: period(/** @type {number} */ (times.at(-1))), parts: parts.join(", ") });
}

/** @param {{label: string, times: number[], series: Series[], format: (value: number) => string, period: (at: number) => string}} props */
function Numbers({ label, times, series, format, period }) {
  const columns = [
    { key: "at", label: t("chart.when"), cell: (/** @type {any} */ row) => period(row.at) },
    ...series.map((one, place) => ({ key: String(place), label: one.name, figures: true, cell: (/** @type {any} */ row) => written(row[place], format) })),
  ];
  const rows = times.map((at, place) => ({ at, ...Object.fromEntries(series.map((one, number) => [number, one.values[place]])) }));
  return html`<${Table} label=${label} columns=${columns} rows=${rows} keyOf=${(/** @type {any} */ row) => String(row.at)} />`;
}

/** Whether the page is dark now, by choice or by the system's wish. */
function useDark() {
  const system = useMemo(() => matchMedia("(prefers-color-scheme: dark)"), []);
  const [wish, setWish] = useState(system.matches);
  useEffect(() => {
    const look = () => setWish(system.matches);
    system.addEventListener("change", look);
    return () => system.removeEventListener("change", look);
  }, []);
  return theme.value === "system" ? wish : theme.value === "dark";
}

/**
 * @param {HTMLElement} element @param {ChartProps} props @param {(at: number) => string} period
 * @param {(place: number | null) => void} pointed
 */
function draw(element, { times, series, format, step, stacked = false }, period, pointed) {
  stylesheet();
  const colour = colours(element), heaps = heaped(series, stacked);
  const bars = /** @type {any} */ (uPlot.paths).bars({ size: [0.7, 40], align: 1 });
  const drawn = series.map((one, place) => ({
    label: one.name, stroke: colour.series[place % MOST_SERIES], width: stacked ? 0 : 2, points: { show: !stacked && times.length < 70, size: 5 },
    spanGaps: false, ...(stacked && { fill: colour.series[place % MOST_SERIES], paths: bars }),
  }));
  const axis = { stroke: colour.text, grid: { stroke: colour.line, width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
  const most = Math.max(0, ...heaps.flat().map((value) => value ?? 0));
  // the greatest heap is drawn first, so that the smaller ones are in front of it
  const order = stacked ? drawn.map((_, place) => place).reverse() : drawn.map((_, place) => place);
  return new uPlot(
    {
      width: element.clientWidth || 300, height: HEIGHT, legend: { show: false }, padding: [10, 8, 0, 0],
      cursor: { drag: { x: false, y: false }, points: { show: !stacked }, y: false },
      scales: { x: { time: false, range: () => [times[0] - (stacked ? 0 : step / 2), /** @type {number} */ (times.at(-1)) + (stacked ? step : step / 2)] }, y: { range: () => [0, most * 1.08 || 1] } },
      axes: [
        { ...axis, grid: { show: false }, incrs: [1, 2, 3, 4, 7, 14, 30, 60].map((count) => count * step), space: 90, values: (_, splits) => splits.map(period), size: 30 },
        { ...axis, size: 62, space: 36, values: (_, splits) => splits.map((value) => format(value)) },
      ],
      series: [{}, ...order.map((place) => drawn[place])],
      hooks: { setCursor: [(chart) => pointed(chart.cursor.idx ?? null)] },
    },
    /** @type {any} */ ([times, ...order.map((place) => heaps[place])]),
    element,
  );
}

/** uPlot's own stylesheet, once. */
function stylesheet() {
  if (document.getElementById("uplot-style")) return;
  const link = document.createElement("link");
  link.id = "uplot-style";
  link.rel = "stylesheet";
  link.href = new URL("../vendor/uplot.css", import.meta.url).href;
  document.head.append(link);
}
