// Reports and lists of the API that a page shows, read again while it is looked at, with the time when they were read.
import { useRef } from "./html.js";
import { get } from "./api.js";
import { usePolled } from "./polled.js";

const SECONDS = 30;
const PAGE = 100;

/**
 * @template T
 * @typedef {{data: T | undefined, error: unknown, offline: boolean, at: number, reload: () => Promise<void>}} Fresh
 * `error`: why there is nothing to show. `offline`: the host is not reached; what was there stays. `at`: when it was read,
 * UTC epoch seconds.
 */

/**
 * Read something now, whenever `keys` change, and again every so many seconds.
 * @template T
 * @param {(signal: AbortSignal) => Promise<T>} load @param {any[]} keys @param {number} [seconds]
 * @returns {Fresh<T>}
 */
export function useFresh(load, keys, seconds = SECONDS) {
  const found = usePolled(async (signal) => ({ data: await load(signal), at: Date.now() / 1000 }), keys, seconds);
  const { value, error, connected, again } = found;
  return { data: value?.data, error, offline: !connected, at: value?.at ?? 0, reload: again };
}

/**
 * A list of the API, read page by page: `next` reads one more. What was read stays up to date.
 * @param {string} to @param {Record<string, any>} [query] @param {number} [seconds]
 */
export function usePages(to, query = {}, seconds = SECONDS) {
  const key = to + JSON.stringify(query);
  const wanted = useRef({ key, pages: 1, read: 0 });
  if (wanted.current.key !== key) wanted.current = { key, pages: 1, read: 0 };
  const fresh = useFresh((signal) => {
    const now = wanted.current;
    now.read = now.pages;
    return readPages(to, query, now.pages, signal);
  }, [key], seconds);
  const next = async () => {
    wanted.current.pages++;
    await fresh.reload(); // which may be the end of a reading that began with fewer
    if (wanted.current.read < wanted.current.pages) await fresh.reload();
  };
  return { ...fresh, items: fresh.data?.items, more: fresh.data?.more ?? null, next };
}

/**
 * @param {string} to @param {Record<string, any>} query @param {number} pages at most @param {AbortSignal} [signal]
 * @returns {Promise<{items: any[], more: string | null}>} `more`: the cursor of what follows
 */
export async function readPages(to, query, pages, signal) {
  const items = [];
  let cursor = /** @type {string | null} */ (null);
  for (let number = 0; number < pages; number++) {
    const page = await get(to, { limit: PAGE, ...query, cursor }, signal);
    items.push(...page.items);
    cursor = page.next_cursor ?? null;
    if (cursor === null) break;
  }
  return { items, more: cursor };
}
