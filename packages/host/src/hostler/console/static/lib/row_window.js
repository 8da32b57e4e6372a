// Of a long list of rows of any height only those near the view exist; gaps as high as the others stand for them.
import { inTurn } from "./turns.js";

/**
 * @typedef {{key: string, about: number}} WindowRow `about`: how high it is, in pixels, as long as nobody has seen it.
 * @typedef {{key: string, row?: any, place: number, height: number}} Piece without `row` it is a gap
 */

/** So many rows beyond the view are there, too: Tab, a screen reader and a short scroll find them. */
const BEYOND = 20;
/** What has left that is kept for so many rows more: who scrolls up and down a little does not render it again. */
const SLACK = 10;
/** How many rows a selection may keep. */
const MOST_SELECTED = 200;
/** So near to its end a list stays there when it grows. */
const NEAR_PIXELS = 60;
/** Within one pixel a place is the same: browsers round them. */
const SAME_PIXELS = 1;

export class RowWindow {
  /** @param {() => void} changed called when other rows have to be rendered */
  constructor(changed) {
    this._changed = changed;
    /** @type {WindowRow[]} */
    this._rows = [];
    /** @type {Map<string, number>} */
    this._places = new Map();
    /** Where each row begins, and where the last one ends. */
    this._tops = [0];
    /** @type {Map<string, number>} of rows that were seen, with the space behind them */
    this._heights = new Map();
    /** @type {Set<string>} */
    this._there = new Set();
    /** Those that are rendered, in the order of their elements. @type {string[]} */
    this._drawn = [];
    /** @type {(row: any) => boolean} */
    this._stays = () => false;
    /** Whether the view stays at the end of the list. */
    this.pinned = true;
    /** Whether nothing follows the last row: only then the view is pinned where one scrolls to it. */
    this.complete = true;
    /** The row that stays where it is in the view. `offset` null: in the middle of it. @type {{key: string, offset: number | null} | null} */
    this._held = null;
    /** @type {HTMLElement | null} */
    this._frame = null;
    /** @type {HTMLElement | null} */
    this._list = null;
    this._space = 0;
    this._last = 0;
    this._own = -1;
    this._range = [0, 0];
    this._called = false;
    this._fresh = false;
    this._observer = new ResizeObserver(() => this._measure());
    /** @type {WeakSet<Element>} */
    this._observed = new WeakSet();
  }

  /** @param {HTMLElement} frame what scrolls @param {HTMLElement} list its elements are the pieces, in their order */
  open(frame, list) {
    this._frame = frame;
    this._list = list;
    this._space = parseFloat(getComputedStyle(list).rowGap) || 0;
    this._observer.observe(frame);
    this._observer.observe(list);
    return () => this._observer.disconnect();
  }

  /**
   * What has to be rendered of these rows.
   * @template {WindowRow} R
   * @param {R[]} rows @param {(row: R) => boolean} stays whether a row is there wherever one looks
   * @returns {Piece[]}
   */
  pieces(rows, stays) {
    if (rows !== this._rows) {
      this._rows = rows;
      this._fresh = true;
      this._places = new Map(rows.map((row, place) => [row.key, place]));
      for (const key of this._there) if (!this._places.has(key)) this._there.delete(key);
      this._add();
    }
    this._stays = stays;
    /** @type {Piece[]} */
    const pieces = [];
    for (const [place, row] of rows.entries()) {
      if (stays(row)) this._there.add(row.key);
      if (this._there.has(row.key)) pieces.push({ key: row.key, row, place, height: 0 });
      else if (pieces.length && !pieces[pieces.length - 1].row) pieces[pieces.length - 1].height += this._height(row);
      else pieces.push({ key: `gap ${row.key}`, place, height: this._height(row) - this._space });
    }
    this._drawn = pieces.flatMap((piece) => (piece.row ? [piece.key] : []));
    return pieces;
  }

  /** After each time that they were rendered. */
  rendered() {
    for (const element of this._list?.children ?? []) {
      if (this._observed.has(element)) continue;
      this._observed.add(element);
      this._observer.observe(element);
    }
    if (!this._fresh) return;
    this._fresh = false;
    this._keep();
    this._look();
  }

  /** Somebody, or the page itself, has scrolled. Whether that was away from the end. */
  scrolled() {
    const frame = this._frame;
    if (!frame) return false;
    const top = frame.scrollTop, own = Math.abs(top - this._own) < SAME_PIXELS;
    const near = frame.scrollHeight - top - frame.clientHeight < NEAR_PIXELS;
    if (!own) {
      this._takeHeights(); // the browser scrolls by itself, too, where rows above came in between two pictures
      if (near && this.complete) this.pinned = true;
      else if (top < this._last) this.pinned = false; // content that grows leaves the end by itself
      this._hold();
    }
    this._last = top;
    this._look();
    return !near && !this.pinned;
  }

  /** Go to the end, and stay there. */
  toEnd() {
    this.pinned = true;
    this._keep();
    this._look();
  }

  /** Show a row in the middle of the view. @param {string} key */
  show(key) {
    this.pinned = false;
    this._held = { key, offset: null };
    this._keep();
    this._look();
  }

  /** @param {WindowRow} row */
  _height(row) {
    return this._heights.get(row.key) ?? row.about + this._space;
  }

  _add() {
    let top = 0;
    this._tops = [0];
    for (const row of this._rows) this._tops.push((top += this._height(row)));
  }

  /** The row at a height of the list. @param {number} top */
  _at(top) {
    let low = 0, high = this._rows.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this._tops[middle] <= top) low = middle;
      else high = middle - 1;
    }
    return Math.max(0, low);
  }

  /** Where the view begins, from the begin of the list. */
  _begin() {
    return /** @type {HTMLElement} */ (this._frame).scrollTop - /** @type {HTMLElement} */ (this._list).offsetTop;
  }

  /** Hold the first row that begins in the view: what is above it may still grow. */
  _hold() {
    if (this.pinned || !this._rows.length || !this._frame) return void (this._held = null);
    const begin = this._begin(), first = this._at(begin);
    const next = Math.min(first + (this._tops[first] < begin ? 1 : 0), this._rows.length - 1);
    const place = this._tops[next] < begin + this._frame.clientHeight ? next : first;
    this._held = { key: this._rows[place].key, offset: this._tops[place] - begin };
  }

  /** Scroll to where the view has to be. */
  _keep() {
    const frame = this._frame, list = this._list;
    if (!frame || !list) return;
    let top = frame.scrollHeight;
    if (!this.pinned) {
      const place = this._held && this._places.get(this._held.key);
      if (!this._held || place === undefined || place === null) return;
      const middle = Math.max(0, (frame.clientHeight - this._height(this._rows[place]) + this._space) / 2);
      top = list.offsetTop + this._tops[place] - (this._held.offset ?? middle);
    }
    if (Math.abs(frame.scrollTop - top) >= SAME_PIXELS) frame.scrollTop = top;
    this._last = this._own = frame.scrollTop;
  }

  /** After layout and before the picture: let the view stay where it is. */
  _measure() {
    this._takeHeights();
    this._keep();
    this._look();
  }

  /** Take the heights of what is there. */
  _takeHeights() {
    const list = this._list;
    if (!list) return;
    let other = false;
    for (const [key, element] of this._elements()) {
      const before = element.previousElementSibling;
      const above = before ? before.getBoundingClientRect().bottom : list.getBoundingClientRect().top - this._space;
      const height = element.getBoundingClientRect().bottom - above;
      if (Math.abs((this._heights.get(key) ?? -1) - height) < 0.01) continue;
      this._heights.set(key, height);
      other = true;
    }
    if (other) this._add();
  }

  /** The elements of the rows that are rendered. @returns {Map<string, Element>} */
  _elements() {
    const elements = [...(this._list?.children ?? [])].filter((one) => !one.classList.contains("gap"));
    return new Map(elements.map((one, at) => [this._drawn[at], one]));
  }

  /** Find out which rows have to be there. */
  _look() {
    const frame = this._frame;
    if (!frame || !this._rows.length) return;
    const begin = this._begin();
    this._range = [this._at(begin), this._at(begin + frame.clientHeight)];
    this._call();
  }

  _call() {
    if (this._called) return;
    this._called = true;
    inTurn(() => {
      this._called = false;
      this._step();
    });
  }

  /** Add the missing row that is nearest to the view, and let go of what is far from it. */
  _step() {
    if (!this._frame || !this._rows.length) return;
    const last = this._rows.length - 1, first = Math.min(this._range[0], last), end = this.pinned ? last : Math.min(this._range[1], last);
    const missing = (/** @type {number} */ place) => place >= 0 && place <= last && !this._there.has(this._rows[place].key);
    let wanted = -1;
    for (let far = 0; far <= end - first && wanted < 0; far++) {
      const place = this.pinned ? end - far : first + far;
      if (missing(place)) wanted = place;
    }
    for (let far = 1; far <= BEYOND && wanted < 0; far++) {
      if (missing(first - far)) wanted = first - far;
      else if (missing(end + far)) wanted = end + far;
    }
    const left = this._left(first - BEYOND - SLACK, end + BEYOND + SLACK);
    if (wanted < 0 && !left.length) return;
    for (const key of left) this._there.delete(key);
    if (wanted >= 0) {
      this._there.add(this._rows[wanted].key);
      this._call();
    }
    this._changed();
  }

  /** The rows outside of a range that nothing keeps. @param {number} from @param {number} to */
  _left(from, to) {
    const far = [...this._there].filter((key) => {
      const place = /** @type {number} */ (this._places.get(key));
      return (place < from || place > to) && !this._stays(this._rows[place]);
    });
    if (!far.length || !this._list) return [];
    const elements = this._elements(), selected = getSelection();
    return far.filter((key) => {
      const element = elements.get(key);
      if (!element) return false; // it is about to be rendered
      if (element.contains(document.activeElement) || [...element.querySelectorAll("audio, video")].some((one) => !(/** @type {any} */ (one).paused))) return false;
      return !selected || selected.isCollapsed || this._there.size > MOST_SELECTED || !selected.containsNode(element, true);
    });
  }
}
