// A list of any length by number: only the visible rows exist, and what they need is asked for as they come into sight.
import { html, useEffect, useLayoutEffect, useRef, useState } from "../lib/html.js";

const BEYOND = 12;

/**
 * `row` renders one row in an element of `height` pixels; null: it is not there yet. `seen` is called with the visible range.
 * @param {{count: number, height: number, row: (index: number) => any, seen: (first: number, last: number) => void, label: string,
 *   drawn?: number}} props `drawn`: changes when rows changed.
 */
export function LongList({ count, height, row, seen, label }) {
  const body = useRef(/** @type {HTMLElement | null} */ (null));
  const [range, setRange] = useState([0, 40]);
  const look = () => {
    if (!body.current) return;
    const top = -body.current.getBoundingClientRect().top;
    const first = Math.max(0, Math.floor(top / height) - BEYOND), last = Math.max(first, Math.ceil((top + innerHeight) / height) + BEYOND);
    setRange((before) => (before[0] === first && before[1] === last ? before : [first, last]));
    seen(first, last);
  };
  useLayoutEffect(look, [count]);
  useEffect(() => {
    addEventListener("scroll", look, { passive: true });
    addEventListener("resize", look);
    return () => {
      removeEventListener("scroll", look);
      removeEventListener("resize", look);
    };
  });
  const first = Math.min(range[0], Math.max(0, count - 1)), last = Math.min(range[1], count);
  const places = Array.from({ length: Math.max(0, last - first) }, (_, at) => first + at);
  return html`
    <div ref=${body} class="rows" role="list" aria-label=${label} style=${{ height: `${count * height}px` }} onKeyDown=${(/** @type {KeyboardEvent} */ event) => walk(event, count, height, body.current)}>
      ${places.map((index) => html`<div
        key=${index} class="slot" role="listitem" aria-posinset=${index + 1} aria-setsize=${count} data-index=${index}
        style=${{ height: `${height}px`, transform: `translateY(${index * height}px)` }}
      >${row(index) ?? html`<span class="unread" aria-hidden="true"></span>`}</div>`)}
    </div>
  `;
}

/** Arrows walk from link to link, Home and End lead to the first and last. @param {KeyboardEvent} event @param {number} count @param {number} height @param {HTMLElement | null} body */
function walk(event, count, height, body) {
  const slot = /** @type {HTMLElement} */ (event.target).closest("[data-index]");
  if (!slot || !body) return;
  const at = Number(slot.getAttribute("data-index"));
  const next = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + 10, PageUp: at - 10, Home: 0, End: count - 1 }[event.key];
  if (next === undefined) return;
  event.preventDefault();
  const wanted = Math.max(0, Math.min(count - 1, next));
  const top = body.getBoundingClientRect().top + scrollY + wanted * height;
  if (top < scrollY + 60 || top > scrollY + innerHeight - 2 * height) scrollTo(0, Math.max(0, top - innerHeight / 2));
  let tries = 0;
  const focus = () => {
    const link = /** @type {HTMLElement | null} */ (body.querySelector(`[data-index="${wanted}"] a`));
    if (link) link.focus({ preventScroll: true });
    else if (tries++ < 100) requestAnimationFrame(focus); // its page is being read
  };
  focus();
}
