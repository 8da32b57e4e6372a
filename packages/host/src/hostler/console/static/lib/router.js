// Addresses of pages. Back, forward, new tabs and shared links work as everywhere.
import { signal } from "./html.js";
import { focusNext } from "./page_focus.js";
import { arrive, beginPlaces, forget, leave } from "./places.js";

const read = () => ({ path: location.pathname, query: new URLSearchParams(location.search) });

/** Where the browser is. */
export const here = signal(read());

/** How often the reader came to an address, also to the one that is open. */
export const arrivals = signal(0);

/** @param {string} to @param {{replace?: boolean}} [options] */
export function go(to, { replace = false } = {}) {
  const { path } = here.value;
  if (replace) {
    history.replaceState(history.state, "", to);
    forget();
  } else {
    leave();
    history.pushState({ from: path }, "", to);
    arrive();
    arrivals.value += 1;
    scrollTo(0, 0);
  }
  if (!replace || location.pathname !== path) focusNext();
  here.value = read();
}

/** The reader has gone back or forward. */
function moved() {
  const { path, query } = here.value;
  leave();
  const place = arrive(), to = read();
  if (to.path !== path || `${to.query}` !== `${query}`) {
    if (!place) scrollTo(0, 0);
    focusNext(place?.link);
  }
  arrivals.value += 1;
  here.value = to;
}

/**
 * Change fields of the query in place; empty ones are left out.
 * @param {Record<string, string | string[] | null | undefined>} changes
 */
export function setQuery(changes) {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    query.delete(name);
    for (const one of Array.isArray(value) ? value : [value]) if (one) query.append(name, one);
  }
  const text = query.toString();
  go(location.pathname + (text ? `?${text}` : ""), { replace: true });
}

/**
 * The parts of a path that a pattern like `/runs/:id` names, or null.
 * @param {string} pattern @param {string} path
 * @returns {Record<string, string> | null}
 */
export function match(pattern, path) {
  const wanted = pattern.split("/"), given = path.replace(/\/$/, "").split("/");
  if (pattern === "/") return path === "/" ? {} : null;
  if (wanted.length !== given.length) return null;
  /** @type {Record<string, string>} */
  const found = {};
  for (const [number, part] of wanted.entries()) {
    if (part.startsWith(":")) {
      try {
        found[part.slice(1)] = decodeURIComponent(given[number]);
      } catch {
        return null;
      }
    } else if (part !== given[number]) return null;
  }
  return found;
}

/** The address of a page: `address("runs", id)`. @param {...string} parts */
export const address = (...parts) => "/" + parts.map(encodeURIComponent).join("/");

/** The address on this host that a text names; null for that of another one, as browsers read it (`//HOST`, `/\HOST`). @param {string | null} text */
export function ownAddress(text) {
  if (!text || !URL.canParse(text, location.origin)) return null;
  const { origin, pathname, search } = new URL(text, location.origin);
  return origin === location.origin && !pathname.startsWith("//") ? pathname + search : null;
}

/** Follow links to pages without loading anew. @param {(path: string) => boolean} isPage */
export function start(isPage) {
  beginPlaces();
  addEventListener("popstate", moved);
  document.addEventListener("click", (event) => {
    if (event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = /** @type {Element} */ (event.target).closest?.("a[href]");
    if (!(link instanceof HTMLAnchorElement) || link.target || link.download || link.origin !== location.origin) return;
    if (!isPage(link.pathname) || (link.hash && link.pathname === location.pathname)) return;
    event.preventDefault();
    // the list that one comes from, as it was
    if (link.classList.contains("back") && history.state?.from === link.pathname) history.back();
    else go(link.pathname + link.search + link.hash);
  });
}
