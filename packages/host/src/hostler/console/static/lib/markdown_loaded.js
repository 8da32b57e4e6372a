// The libraries for Markdown, which are loaded when there is some to show: a text is shown as it was written until then.
import { signal } from "./html.js";
import { Turn } from "./turns.js";

/** @typedef {typeof import("./markdown.js")} Libraries */

const load = () => import("./markdown.js");
/** @type {Promise<void> | null} */
let loading = null;

/** What is longer is no Markdown. */
export const MAX_CHARS = 200_000;
/** The module, once it is there. */
export const markdown = signal(/** @type {Libraries | null} */ (null));

/** Load them, unless they are there. A text that stays as it was written is no failure: a host of another version has other files. */
export function loadMarkdown() {
  loading ??= begin().catch(() => void (loading = null));
  return loading;
}

async function begin() {
  const found = await load();
  await new Turn().next(); // its scripts have just run, which takes as long as showing what waits for them
  markdown.value = found;
}
