// A run and its journal, kept up to date while it goes on.
import { signal } from "./html.js";
import { Unreachable, follow, get, path } from "./api.js";
import { Steps } from "./steps.js";
import { TERMINAL } from "../components/status.js";

const PAGE = 200;
const TOGETHER_MS = 120;

/** @param {string} runId */
export function liveJournal(runId) {
  const abort = new AbortController();
  const run = signal(/** @type {any} */ (null));
  const steps = signal(/** @type {import("./steps.js").Step[]} */ ([]));
  const failure = signal(/** @type {unknown} */ (null));
  const found = new Steps();
  let reading = false, again = false;

  /** Read what the journal has beyond what is known; one reading at a time. */
  async function read() {
    if (reading) return void (again = true);
    reading = true;
    try {
      do {
        again = false;
        for (let more = true; more && !abort.signal.aborted; ) {
          const page = await get(path("runs", runId, "journal"), { after: found.after || undefined, limit: PAGE }, abort.signal);
          found.take(page.items);
          steps.value = found.steps;
          more = page.has_more;
        }
        run.value = await get(path("runs", runId), {}, abort.signal);
      } while (again);
    } catch (error) {
      if (abort.signal.aborted) return;
      // a host that is away for a while comes back: what is known stays on the page
      if (error instanceof Unreachable && run.value) later();
      else failure.value = error;
    } finally {
      reading = false;
    }
  }

  let timer = 0;
  const later = () => (timer ||= window.setTimeout(() => ((timer = 0), read()), TOGETHER_MS));

  async function begin() {
    await read();
    if (failure.value || abort.signal.aborted || TERMINAL.has(run.value.status)) return;
    await follow("/v1/stream", {
      query: { conversation_id: run.value.conversation_id, agent: run.value.agent },
      signal: abort.signal,
      on: ({ data }) => {
        if (data?.run_id !== runId) return false;
        later();
        return TERMINAL.has(data.status);
      },
      state: (up) => void (up && read()), // what came while the stream was cut off
    });
  }
  begin().catch((error) => (failure.value = error));
  return { run, steps, failure, read, stop: () => abort.abort() };
}
