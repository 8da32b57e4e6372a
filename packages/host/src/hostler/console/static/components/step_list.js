// A list of any length in which rows can be opened: only what is visible exists. Closed rows have one height, what is
// opened is measured.
import { html, useEffect, useLayoutEffect, useRef, useState } from "../lib/html.js";

const BEYOND = 10;

/**
 * `row` renders one item, closed; `inside` what it holds, when it is opened. `control` gets what callers do: `show(index)`
 * scrolls to a row.
 * @param {{items: any[], height: number, row: (item: any, index: number, open: boolean) => any, inside: (item: any) => any,
 *   keyOf: (item: any) => string, opened: Set<string>, label: string, control?: {show: (index: number) => void},
 *   onKeyDown?: (event: KeyboardEvent) => void}} props
 */
export function StepList({ items, height, row, inside, keyOf, opened, label, control, onKeyDown }) {
  const body = useRef(/** @type {HTMLElement | null} */ (null));
  const heights = useRef(/** @type {Map<string, number>} */ (new Map()));
  const [range, setRange] = useState([0, 40]);
  const [, redraw] = useState(0);
  const extra = extras(items, opened, keyOf, heights.current);
  const whole = items.length * height + (extra.at(-1)?.sum ?? 0);
  const look = () => {
    if (!body.current) return;
    const top = -body.current.getBoundingClientRect().top;
    const first = Math.max(0, indexAt(top, height, extra) - BEYOND), last = indexAt(top + innerHeight, height, extra) + BEYOND;
    setRange((before) => (before[0] === first && before[1] === last ? before : [first, last]));
  };
  useLayoutEffect(look, [items.length, whole]);
  useEffect(() => {
    addEventListener("scroll", look, { passive: true });
    addEventListener("resize", look);
    return () => {
      removeEventListener("scroll", look);
      removeEventListener("resize", look);
    };
  });
  if (control) {
    control.show = (index) => {
      const at = /** @type {HTMLElement} */ (body.current).getBoundingClientRect().top + scrollY + topOf(index, height, extra);
      scrollTo(0, Math.max(0, at - innerHeight / 3));
      look();
    };
  }
  const measured = (/** @type {string} */ key, /** @type {number} */ size) => {
    if (heights.current.get(key) === size) return;
    heights.current.set(key, size);
    redraw((number) => number + 1);
  };
  const first = Math.min(range[0], Math.max(0, items.length - 1)), shown = items.slice(first, range[1]);
  return html`
    <div ref=${body} class="rows steps" role="list" aria-label=${label} style=${{ height: `${whole}px` }} onKeyDown=${onKeyDown}>
      ${shown.map((item, at) => {
        const index = first + at, key = keyOf(item), open = opened.has(key);
        return html`<div
          key=${key} class="slot-of-step" role="listitem" aria-posinset=${index + 1} aria-setsize=${items.length} data-index=${index}
          style=${{ transform: `translateY(${topOf(index, height, extra)}px)` }}
        >
          <div style=${{ height: `${height}px` }}>${row(item, index, open)}</div>
          ${open && html`<${Measured} id=${key} told=${measured}>${inside(item)}</${Measured}>`}
        </div>`;
      })}
    </div>
  `;
}

/** @param {{id: string, told: (key: string, size: number) => void, children?: any}} props */
function Measured({ id, told, children }) {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  useLayoutEffect(() => {
    const element = /** @type {HTMLElement} */ (box.current);
    const watch = new ResizeObserver(() => told(id, element.offsetHeight));
    watch.observe(element);
    return () => watch.disconnect();
  }, [id]);
  return html`<div ref=${box} class="flow">${children}</div>`;
}

/** @typedef {{index: number, sum: number}[]} Extras By index; `sum`: what this and all before it add. */

/**
 * @param {any[]} items @param {Set<string>} opened @param {(item: any) => string} keyOf @param {Map<string, number>} heights
 * @returns {Extras}
 */
function extras(items, opened, keyOf, heights) {
  if (!opened.size) return [];
  /** @type {Extras} */
  const found = [];
  let sum = 0;
  for (const [index, item] of items.entries()) {
    const key = keyOf(item);
    if (!opened.has(key)) continue;
    sum += heights.get(key) ?? 0;
    found.push({ index, sum });
  }
  return found;
}

/** @param {number} index @param {number} height @param {Extras} extra */
function topOf(index, height, extra) {
  let sum = 0;
  for (const one of extra) {
    if (one.index >= index) break;
    sum = one.sum;
  }
  return index * height + sum;
}

/** The row at a height. @param {number} top @param {number} height @param {Extras} extra */
function indexAt(top, height, extra) {
  let sum = 0;
  for (const one of extra) {
    const begins = one.index * height + sum;
    if (top < begins + height) break;
    if (top < (one.index + 1) * height + one.sum) return one.index;
    sum = one.sum;
  }
  return Math.max(0, Math.floor((top - sum) / height));
}
