// A table of rows that can be sorted by its columns; on a phone each row is a card.
import { html, useState } from "../lib/html.js";
import { t } from "../lib/i18n.js";

/**
 * @typedef {{key: string, label: string, cell?: (row: any) => any, value?: (row: any) => string | number | null | undefined,
 *   figures?: boolean, wide?: boolean, sort?: boolean}} Column
 * `cell`: what is shown, `row[key]` without one. `value`: by what it is sorted, `row[key]` without one. `figures`: numbers,
 * to the right. `wide`: takes what room is left. `sort`: false where an order makes no sense.
 * @typedef {{by: string, down: boolean}} Order
 */

/** The order of two values: numbers, then texts, then what is missing. @param {any} a @param {any} b */
export function compare(a, b) {
  const none = Number(a === null || a === undefined) - Number(b === null || b === undefined);
  if (none || a === null || a === undefined) return none;
  return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
}

/**
 * Rows in an order; what is missing is last both ways.
 * @param {any[]} rows @param {Column[]} columns @param {Order | null} order
 */
export function sorted(rows, columns, order) {
  const column = columns.find((one) => one.key === order?.by);
  if (!column || !order) return rows;
  const of = column.value ?? ((/** @type {any} */ row) => row[column.key]);
  const missing = (/** @type {any} */ value) => value === null || value === undefined;
  return [...rows].sort((a, b) => {
    const [x, y] = [of(a), of(b)];
    return compare(x, y) * (order.down && !missing(x) && !missing(y) ? -1 : 1);
  });
}

/**
 * `order` and `reorder` keep the order elsewhere, such as in the address; without them the table does. `foot`: a row of
 * totals, shown as the others.
 * @param {{columns: Column[], rows: any[], keyOf: (row: any) => string, label: string, order?: Order | null,
 *   reorder?: (order: Order) => void, foot?: any, sortable?: boolean}} props
 */
export function Table({ columns, rows, keyOf, label, order, reorder, foot, sortable = true }) {
  const [own, setOwn] = useState(/** @type {Order | null} */ (null));
  const current = order === undefined ? own : order;
  const press = (/** @type {Column} */ column) => {
    const same = current?.by === column.key;
    (reorder ?? setOwn)({ by: column.key, down: same ? !current?.down : Boolean(column.figures) });
  };
  return html`
    <div class="table-frame">
      <table class="table" role="table" aria-label=${label}>
        <thead role="rowgroup">
          <tr role="row">
            ${columns.map((column) => html`<${Head} key=${column.key} column=${column} order=${current} sortable=${sortable} press=${press} />`)}
          </tr>
        </thead>
        <tbody role="rowgroup">
          ${sorted(rows, columns, current).map((row) => html`<${Row} key=${keyOf(row)} columns=${columns} row=${row} />`)}
        </tbody>
        ${foot && html`<tfoot role="rowgroup"><${Row} columns=${columns} row=${foot} /></tfoot>`}
      </table>
    </div>
  `;
}

/** @param {{column: Column, order: Order | null, sortable: boolean, press: (column: Column) => void}} props */
function Head({ column, order, sortable, press }) {
  const here = order?.by === column.key, can = sortable && column.sort !== false && column.label;
  const classes = `${column.figures ? "figures" : ""} ${column.wide ? "wide-column" : ""} ${can ? "" : "unsorted"}`;
  return html`
    <th role="columnheader" scope="col" class=${classes} aria-sort=${here ? (order?.down ? "descending" : "ascending") : null}>
      ${can
        ? html`<button class="quiet sort" title=${t("table.sort", { name: column.label })} onClick=${() => press(column)}>
            ${column.label}<span class="arrow" aria-hidden="true">${here ? (order?.down ? "↓" : "↑") : ""}</span>
          </button>`
        : column.label}
    </th>
  `;
}

/** @param {{columns: Column[], row: any}} props */
const Row = ({ columns, row }) => html`
  <tr role="row">
    ${columns.map((column) => {
      const shown = column.cell ? column.cell(row) : row[column.key];
      const empty = shown === null || shown === undefined || shown === "";
      return html`<td key=${column.key} role="cell" data-label=${column.label} dir="auto"
        class=${`${column.figures ? "figures" : ""} ${column.wide ? "first" : ""} ${empty ? "none" : ""}`}><div class="cell">${shown}</div></td>`;
    })}
  </tr>
`;
