// Files on their way to the host: with progress, sent again where the network fails, and stored once.
import { signal } from "./html.js";
import { Problem, Unreachable, credentials, isPassing, newId, sleep, withQuery } from "./api.js";
import { size } from "./format.js";
import { t } from "./i18n.js";

/**
 * @typedef {{artifact_id: string, name: string | null, mime_type: string | null, size_bytes: number}} Artifact
 * @typedef {{key: string, name: string, size: number, type: string, sent: number, artifact: Artifact | null,
 *   error: unknown, preview: string, file: File | null, request: string}} Upload
 * @typedef {{name: string, size_bytes: number}} Begun a file that the host did not have yet
 * `sent`: bytes so far. `preview`: a URL of an image. `request`: the same for all that is one attempt to store it.
 */

const TRIES = 6;
const FIRST_WAIT_MS = 500;
const AT_ONCE = 2;
export const MOST_FILES = 32;
export const MOST_BYTES = 1024 ** 3;

/**
 * Send the bytes of a file; return the JSON of the answer. Throws Problem or Unreachable. With the same `key` it is stored once.
 * @param {string} to @param {File} file @param {(bytes: number) => void} progress @param {AbortSignal} stop
 * @param {{method?: string, type?: string, key?: string}} [as]
 */
export async function sendFile(to, file, progress, stop, { method = "POST", type = file.type, key = newId() } = {}) {
  for (let tries = 1, wait = FIRST_WAIT_MS; ; tries++, wait *= 2) {
    try {
      return await sendOnce(method, to, file, type, key, progress, stop);
    } catch (error) {
      if (stop.aborted || !isPassing(error) || tries === TRIES) throw error;
    }
    progress(0);
    await sleep(wait, stop);
  }
}

/**
 * XMLHttpRequest says how far it has come; fetch does not.
 * @param {string} method @param {string} to @param {File} file @param {string} type @param {string} key @param {(bytes: number) => void} progress @param {AbortSignal} stop
 */
const sendOnce = (method, to, file, type, key, progress, stop) =>
  new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open(method, to);
    request.setRequestHeader("content-type", type || "application/octet-stream");
    request.setRequestHeader("x-csrf-token", credentials.csrf);
    if (method === "POST") request.setRequestHeader("idempotency-key", key);
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
 * A list of files that are sent as soon as they are added: as artifacts with a `query`, anew for each file, or to where
 * `put` says for a name. `most` files of at most `mostBytes` are taken at a time.
 * @param {{query?: () => Record<string, any>, put?: (name: string) => string, changed?: () => void, most?: number, mostBytes?: number}} [options]
 */
export function uploads({ query = () => ({}), put, changed = () => {}, most = MOST_FILES, mostBytes = MOST_BYTES } = {}) {
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
      if (one.file && !one.artifact && !one.error && !under_way.has(one.key)) send(one, one.file);
    }
  }

  /** @param {Upload} upload @param {File} file */
  async function send({ key, name, request }, file) {
    const stop = new AbortController();
    under_way.set(key, stop);
    try {
      const address = put ? put(name) : withQuery("/v1/artifacts", { name: name.slice(0, 512), ...query() });
      // what is put somewhere is of the type that its name there says to the host
      const as = put ? { method: "PUT", type: "" } : { key: request };
      const artifact = await sendFile(address, file, (sent) => set(key, { sent }), stop.signal, as);
      set(key, { artifact, sent: file.size, file: null });
    } catch (error) {
      if (!stop.signal.aborted) set(key, { error });
    } finally {
      under_way.delete(key);
      changed();
      next();
    }
  }

  /** @param {Iterable<File>} files @param {string} [name] instead of its own @returns {number} how many were left out, since there are too many */
  function add(files, name) {
    const wanted = [...files], room = most - list.value.length;
    const added = wanted.slice(0, room).map((file) => uploadOf(file, name));
    list.value = [...list.value, ...added];
    changed();
    next();
    return wanted.length - added.length;
  }

  /** @param {File} file @param {string} [name] @returns {Upload} */
  const uploadOf = (file, name = file.name) => ({
    key: newId(), request: newId(), name, size: file.size, type: file.type, sent: 0, artifact: null, file,
    error: file.size > mostBytes ? new Problem(413, { detail: t("files.too_large", { most: size(mostBytes) }) }) : null,
    preview: /^image\/(png|jpeg|gif|webp|avif)$/.test(file.type) ? URL.createObjectURL(file) : "",
  });

  /** Put a file where one was cut off. @param {string} key @param {File} file */
  function replace(key, file) {
    list.value = list.value.map((one) => (one.key === key ? uploadOf(file) : one));
    changed();
    next();
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
    list, add, drop, replace, most,
    /** Send a file again that failed: as the same request where no answer came, since the host may have it. @param {string} key */
    retry: (key) => {
      const { error, request } = list.value.find((one) => one.key === key) ?? {};
      set(key, { error: null, sent: 0, request: error instanceof Unreachable ? request : newId() });
      next();
    },
    /** Put files into the list that the host has, and those that were on their way. @param {(Artifact | Begun)[]} files */
    restore: (files) => {
      list.value = files.map((one) => {
        const artifact = "artifact_id" in one ? one : null, key = artifact?.artifact_id ?? newId();
        return {
          key, request: key, name: one.name ?? "", size: one.size_bytes, type: artifact?.mime_type ?? "",
          sent: artifact ? one.size_bytes : 0, artifact, error: artifact ? null : new Error(t("files.cut_off")), preview: "", file: null,
        };
      });
    },
    clear: () => list.value.forEach((one) => drop(one.key)),
    /** What the host has of the list. */
    stored: () => list.value.flatMap((one) => (one.artifact ? [one.artifact] : [])),
    /** All of the list, for `restore`. @returns {(Artifact | Begun)[]} */
    kept: () => list.value.map((one) => one.artifact ?? { name: one.name, size_bytes: one.size }),
    /** Whether something of it is still on its way. */
    busy: () => list.value.some((one) => !one.artifact && !one.error),
  };
}
