// Messages on their way: kept until the host has them, and sent once, however often that is tried.
import { signal } from "./html.js";
import { Problem, isPassing, newId, post, sleep } from "./api.js";
import { owner } from "./session.js";

/**
 * @typedef {{event_id: string, conversation_id: string, agent: string, text: string, attachments: any[], at: number,
 *   state: "sending" | "sent" | "refused" | "rejected", error: string, outcome: string, run_id: string | null}} Sent
 * `sent`: the host has it. `refused`: it said why not. `rejected`: its agent takes no message now.
 */

const FIRST_WAIT_MS = 500;
const LAST_WAIT_MS = 5000;
const ANSWER_MS = 20_000;
/** All messages that are not shown by their conversation yet. */
export const outbox = signal(/** @type {Sent[]} */ ([]));

/** Where the messages of this person are kept: nobody sends what another person has typed. */
const own = () => `hostler-outbox ${owner()}`;
let place = "", running = false;

/** @param {Sent[]} list */
function set(list) {
  outbox.value = list;
  const kept = list.filter((one) => one.state !== "sent");
  try {
    if (kept.length) sessionStorage.setItem(place, JSON.stringify(kept));
    else sessionStorage.removeItem(place);
  } catch {
    // full or forbidden: the messages are sent as long as the page is there
  }
}

/** @param {string} event_id @param {Partial<Sent>} changes */
const change = (event_id, changes) => set(outbox.value.map((one) => (one.event_id === event_id ? { ...one, ...changes } : one)));

/** @param {string} event_id */
export const forget = (event_id) => set(outbox.value.filter((one) => one.event_id !== event_id));

/** Messages that their conversation shows now. @param {Set<string>} event_ids */
export function shownNow(event_ids) {
  const left = outbox.value.filter((one) => !(one.state === "sent" && event_ids.has(one.event_id)));
  if (left.length < outbox.value.length) set(left);
}

/** @param {{conversation_id: string, agent: string, text: string, attachments: any[]}} message */
export function send(message) {
  const event_id = `console-${newId()}`;
  set([...outbox.value, { ...message, event_id, at: Date.now() / 1000, state: "sending", error: "", outcome: "", run_id: null }]);
  run();
}

/** Try a refused message again, as a new one if the host has the old one. @param {Sent} message */
export function again(message) {
  const event_id = message.state === "rejected" ? `console-${newId()}` : message.event_id;
  set(outbox.value.map((one) => (one.event_id === message.event_id ? { ...one, event_id, state: "sending", error: "" } : one)));
  run();
}

/** Take up what an earlier page of this tab has left. */
export function takeUp() {
  if (place !== own()) {
    place = own();
    try {
      outbox.value = JSON.parse(sessionStorage.getItem(place) ?? "[]");
    } catch {
      outbox.value = [];
    }
  }
  run();
}

/** Send one after the other, in their order. */
async function run() {
  if (running) return;
  running = true;
  let wait = FIRST_WAIT_MS;
  for (let next; place === own() && (next = outbox.value.find((one) => one.state === "sending")); ) {
    if (await once(next)) wait = FIRST_WAIT_MS;
    else {
      await untilTried(wait);
      wait = Math.min(2 * wait, LAST_WAIT_MS);
    }
  }
  running = false;
}

let hurry = () => {};
/** The host is there again: try now. */
export const hasHost = () => hurry();

/** @param {number} ms */
const untilTried = (ms) =>
  Promise.race([sleep(ms), new Promise((resolve) => (hurry = () => resolve(undefined)))]);

/** @param {import("./uploads.js").Artifact} file */
const refOf = ({ artifact_id, name, mime_type, size_bytes }) => ({ artifact_id, ...(name && { name }), ...(mime_type && { mime_type }), size_bytes });

/** @param {Sent} message @returns {Promise<boolean>} whether it is through, well or not */
async function once({ event_id, conversation_id, agent, text, attachments }) {
  const input = { text, ...(attachments.length && { attachments: attachments.map(refOf) }) };
  try {
    const accepted = await post("/v1/events", { event_type: "message.received", event_id, conversation_id, agent, input }, { signal: AbortSignal.timeout(ANSWER_MS) });
    const { outcome, run } = accepted;
    if (outcome === "rejected" || outcome === "unrouted") change(event_id, { state: "rejected", outcome });
    else change(event_id, { state: "sent", outcome, run_id: run?.run_id ?? null });
    return true;
  } catch (error) {
    if (error instanceof Problem && error.status !== 401 && !isPassing(error)) {
      change(event_id, { state: "refused", error: error.message });
      return true;
    }
    return false;
  }
}
