// What grows while it is shown: read on from where the last reading came to.
import { useEffect, useMemo } from "./html.js";
import { isPassing, sleep } from "./api.js";

const RETRY_MS = 1000;

/**
 * Read up to `last`, and on from there when it grows: one reading at a time, begun anew when `keys` change.
 *
 * `read` reads everything after a place. It is called again with the same place when the host was away.
 * @param {number} last @param {any[]} keys @param {(after: number, abort: AbortSignal) => Promise<void>} read
 * @param {(error: unknown) => void} failed
 */
export function useReadUpTo(last, keys, read, failed) {
  const at = useMemo(() => ({ done: 0, wanted: 0, reading: false, abort: new AbortController() }), keys);
  useEffect(() => () => at.abort.abort(), [at]);
  useEffect(() => {
    at.wanted = last;
    if (at.reading) return;
    at.reading = true;
    catchUp(at, read)
      .catch((error) => at.abort.signal.aborted || failed(error))
      .finally(() => (at.reading = false));
  }, [at, last]);
}

/** @param {{done: number, wanted: number, abort: AbortController}} at @param {(after: number, abort: AbortSignal) => Promise<void>} read */
async function catchUp(at, read) {
  const { signal } = at.abort;
  while (at.done < at.wanted && !signal.aborted) {
    const { wanted } = at;
    try {
      await read(at.done, signal);
      at.done = wanted;
    } catch (error) {
      if (signal.aborted || !isPassing(error)) throw error;
      await sleep(RETRY_MS, signal);
    }
  }
}
