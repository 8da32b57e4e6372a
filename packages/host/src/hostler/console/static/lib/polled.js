// Something that no stream tells about: read again every few seconds, while the page is looked at.
import { signal, useEffect, useMemo } from "./html.js";
import { isPassing } from "./api.js";

const AWAY_SECONDS = 3;

/** @template T @typedef {{value: T | null, error: unknown, connected: boolean, again: () => Promise<void>}} Polled */

/**
 * Begin to read. What was read stays while the host is away; it is read on until `stop`.
 * @template T @param {(signal: AbortSignal) => Promise<T>} read @param {number} seconds
 */
export function polled(read, seconds) {
  const abort = new AbortController();
  const state = signal(/** @type {{value: T | null, error: unknown, connected: boolean}} */ ({ value: null, error: null, connected: true }));
  let timer = 0, reading = /** @type {Promise<void> | null} */ (null);

  async function look() {
    try {
      state.value = { value: await read(abort.signal), error: null, connected: true };
    } catch (error) {
      if (abort.signal.aborted) return;
      const away = isPassing(error);
      state.value = { value: state.value.value, error: away && state.value.value !== null ? null : error, connected: !away };
    }
  }
  const again = () => (reading ??= look().finally(() => ((reading = null), next())));
  function next() {
    clearTimeout(timer);
    const wait = state.value.connected ? seconds : Math.min(seconds, AWAY_SECONDS);
    if (!abort.signal.aborted && !document.hidden) timer = window.setTimeout(again, wait * 1000);
  }
  const shown = () => void (document.hidden ? clearTimeout(timer) : again());
  document.addEventListener("visibilitychange", shown);
  again();
  const stop = () => {
    abort.abort();
    clearTimeout(timer);
    document.removeEventListener("visibilitychange", shown);
  };
  return { state, again, stop };
}

/**
 * The same for a component, begun anew when `keys` change.
 * @template T @param {(signal: AbortSignal) => Promise<T>} read @param {any[]} keys @param {number} [seconds] @returns {Polled<T>}
 */
export function usePolled(read, keys, seconds = 5) {
  const one = useMemo(() => polled(read, seconds), keys);
  useEffect(() => one.stop, [one]);
  return { ...one.state.value, again: one.again };
}
