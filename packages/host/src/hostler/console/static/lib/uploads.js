// Files on their way to the host: with progress, sent again where the network fails, and stored once.
import { signal } from "./html.js";
import { Problem, Unreachable, credentials, newId, sleep, withQuery } from "./api.js";

/**
 * @typedef {{artifact_id: string, name: string | null, mime_type: string | null, size_bytes: number}} Artifact
 * @typedef {{key: string, name: string, size: number, type: string, sent: number, artifact: Artifact | null,
 *   error: unknown, preview: string, file: File | null}} Upload
 * `sent`: bytes so far. `preview`: a URL of an image.
 */

const TRIES = 6;
const FIRST_WAIT_MS = 500;
const AT_ONCE = 2;
export const MOST_FILES = 32;
export const MOST_BYTES = 1024 ** 3;

/**
 * Send the bytes of a file; return the JSON of the answer. Throws Problem or Unreachable.
 * @param {string} to @param {File} file @param {(bytes: number) => void} progress @param {AbortSignal} stop
 */
export async function sendFile(to, file, progress, stop) {
  const key = newId();
  for (let tries = 1, wait = FIRST_WAIT_MS; ; tries++, wait *= 2) {
    try {
      return await sendOnce(to, file, key, progress, stop);
    } catch (error) {
      const passing = error instanceof Unreachable || (error instanceof Problem && [429, 502, 503].includes(error.status));
      if (stop.aborted || !passing || tries === TRIES) throw error;
    }
    progress(0);
    await sleep(wait, stop);
  }
}

/** XMLHttpRequest says how far it has come; fetch does not. @param {string} to @param {File} file @param {string} key @param {(bytes: number) => void} progress @param {AbortSignal} stop */
const sendOnce = (to, file, key, progress, stop) =>
  new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", to);
    request.setRequestHeader("content-type", file.type || "application/octet-stream");
    request.setRequestHeader("x-csrf-token", credentials.csrf);
    request.setRequestHeader("idempotency-key", key);
    request.upload.onprogress = (event) => progress(event.loaded);
    request.onerror = request.onabort = () => reject(new Unreachable("cut off"));
    request.onload = () => {
      let found = {};
      try {
        found = JSON.parse(request.responseText);
      } catch {
        // a proxy's page: the status says enough
      }
      if (request.status >= 200 && request.status < 300) return resolve(found);
      if (request.status === 401) credentials.over();
      reject(new Problem(request.status, found));
    };
    stop.addEventListener("abort", () => request.abort(), { once: true });
    request.send(file);
  });

/**
 * A list of files that are sent as soon as they are added. `to` and `query` say where, `query` anew for each file.
 * @param {{to?: string, query?: () => Record<string, any>, changed?: () => void}} [options]
 */
export function uploads({ to = "/v1/artifacts", query = () => ({}), changed = () => {} } = {}) {
  const list = signal(/** @type {Upload[]} */ ([]));
  /** @type {Map<string, AbortController>} */
  const under_way = new Map();

  /** @param {string} key @param {Partial<Upload>} changes */
  const set = (key, changes) => {
    list.value = list.value.map((one) => (one.key === key ? { ...one, ...changes } : one));
  };

  function next() {
    for (const one of list.value) {
      if (under_way.size >= AT_ONCE) return;
      if (one.file && !one.artifact && !one.error && !under_way.has(one.key)) send(one.key, one.file);
    }
  }

  /** @param {string} key @param {File} file */
  async function send(key, file) {
    const stop = new AbortController();
    under_way.set(key, stop);
    try {
      const address = withQuery(to, { name: file.name.slice(0, 512), ...query() });
      const artifact = await sendFile(address, file, (sent) => set(key, { sent }), stop.signal);
      set(key, { artifact, sent: file.size, file: null });
    } catch (error) {
      if (!stop.signal.aborted) set(key, { error });
    } finally {
      under_way.delete(key);
      changed();
      next();
    }
  }

  /** @param {Iterable<File>} files @returns {number} how many were left out, since there are too many */
  function add(files) {
    const wanted = [...files], room = MOST_FILES - list.value.length;
    const added = wanted.slice(0, room).map((file) => ({
      key: newId(), name: file.name, size: file.size, type: file.type, sent: 0, artifact: null, file,
      error: file.size > MOST_BYTES ? new Problem(413, {}) : null,
      preview: /^image\/(png|jpeg|gif|webp|avif)$/.test(file.type) ? URL.createObjectURL(file) : "",
    }));
    list.value = [...list.value, ...added];
    next();
    return wanted.length - added.length;
  }

  /** @param {string} key */
  function drop(key) {
    const found = list.value.find((one) => one.key === key);
    list.value = list.value.filter((one) => one.key !== key);
    under_way.get(key)?.abort();
    if (found?.preview) URL.revokeObjectURL(found.preview);
    changed();
  }

  return {
    list, add, drop,
    /** Send a file again that failed. @param {string} key */
    retry: (key) => (set(key, { error: null, sent: 0 }), next()),
    /** Put files into the list that the host has. @param {Artifact[]} artifacts */
    restore: (artifacts) => {
      list.value = artifacts.map((artifact) => ({
        key: artifact.artifact_id, name: artifact.name ?? "", size: artifact.size_bytes, type: artifact.mime_type ?? "",
        sent: artifact.size_bytes, artifact, error: null, preview: "", file: null,
      }));
    },
    clear: () => list.value.forEach((one) => drop(one.key)),
    /** What the host has of the list. */
    stored: () => list.value.flatMap((one) => (one.artifact ? [one.artifact] : [])),
    /** Whether something of it is still on its way. */
    busy: () => list.value.some((one) => !one.artifact && !one.error),
  };
}
