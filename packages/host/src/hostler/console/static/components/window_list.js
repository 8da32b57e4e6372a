// A list of any length of which only the visible rows exist. All rows have one height.
import { html, useEffect, useLayoutEffect, useRef, useState } from "../lib/html.js";

const BEYOND = 12;

/**
 * `row` renders one item in an element of `height` pixels. `more` is called when the end comes near.
 * @param {{items: any[], height: number, row: (item: any, index: number) => any, keyOf: (item: any) => string,
 *   more?: () => void, label: string, head?: any}} props
 */
export function WindowList({ items, height, row, keyOf, more, label, head }) {
  const body = useRef(/** @type {HTMLElement | null} */ (null));
  const [range, setRange] = useState([0, 40]);
  const look = () => {
    if (!body.current) return;
    const top = -body.current.getBoundingClientRect().top;
    const first = Math.max(0, Math.floor(top / height) - BEYOND);
    const last = Math.ceil((top + innerHeight) / height) + BEYOND;
    setRange((before) => (before[0] === first && before[1] === last ? before : [first, last]));
    if (more && last >= items.length) more();
  };
  useLayoutEffect(look, [items.length]);
  useEffect(() => {
    addEventListener("scroll", look, { passive: true });
    addEventListener("resize", look);
    return () => {
      removeEventListener("scroll", look);
      removeEventListener("resize", look);
    };
  });
  const [first, last] = range;
  const shown = items.slice(first, last);
  return html`
    <div class="list">
      ${head}
      <div ref=${body} class="rows" role="list" aria-label=${label} style=${{ height: `${items.length * height}px` }}>
        ${shown.map(
          (item, index) => html`<div
            key=${keyOf(item)} class="slot" role="listitem" aria-posinset=${first + index + 1} aria-setsize=${items.length}
            style=${{ height: `${height}px`, transform: `translateY(${(first + index) * height}px)` }}
          >${row(item, first + index)}</div>`,
        )}
      </div>
    </div>
  `;
}
