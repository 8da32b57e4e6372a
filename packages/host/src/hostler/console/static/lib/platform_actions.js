// Platform actions in the journal of a run: what they are about, their risk, and what became of them. Pure.

/** Concern other people's messages or membership, or cannot be undone. */
export const DANGEROUS = new Set(["message.delete", "member.mute", "member.kick", "member.ban", "group.leave", "platform.call"]);
export const READS = new Set(["member.info", "member.list", "group.info", "history.fetch"]);
const TOOL = "platform.";

/** @param {string} action @returns {"read" | "write" | "dangerous"} */
export const riskOf = (action) => (DANGEROUS.has(action) ? "dangerous" : READS.has(action) ? "read" : "write");

/** The action that a tool carries out, or null. @param {unknown} tool */
export function actionOfTool(tool) {
  if (typeof tool !== "string" || !tool.startsWith(TOOL)) return null;
  const name = tool.slice(TOOL.length);
  return name.includes("_") ? name.replace("_", ".") : tool; // of `platform.call` they are the same
}

/** Where the event of the run came from, as its context says. @param {any} context @returns {Record<string, string>} */
export function placeOf(context) {
  const target = context?.delivery?.reply_target;
  return target && typeof target === "object" ? target : {};
}

/**
 * The place that an action is about, as `channel/chat`, and who or what there. What it leaves out is that of the event.
 * @param {any} asked target and payload in one object, or a target that is one text @param {Record<string, string>} place
 */
export function aboutOf(asked, place) {
  const target = asked && typeof asked === "object" ? asked : { what: asked };
  const channel = target.channel ?? place.channel, chat = target.chat_id ?? (channel === place.channel ? place.chat_id : undefined);
  const about = [target.what, target.person_id, target.message_id, target.request_id].filter((one) => typeof one === "string");
  return [[channel, chat].filter(Boolean).join("/"), ...about].filter(Boolean).join(" · ");
}

/** What became of an action that a call asked for. @param {string} kind of the entry @param {any} data */
export function outcomeOf(kind, data) {
  if (data.error) return data.check === "approval" || ["denied", "expired"].includes(data.error.code) ? "denied" : kind === "refusal" || data.check ? "refused" : "failed";
  if (kind === "intent" || data.reply === undefined) return "asked";
  const said = data.method === "tool.call" ? data.reply?.result : data.reply;
  return ["done", "unsupported", "in_doubt"].includes(said?.outcome) ? said.outcome : "done";
}

/** Why nobody could do it. @param {any} data */
export const reasonOfAction = (data) => String(data.error?.message ?? data.reply?.reason ?? data.reply?.result?.reason ?? "");
