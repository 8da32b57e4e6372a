// Where the things are that entries of the audit log name.
import { conversationPage, listOf, pageOf } from "./thing_address.js";

/** Where things are shown that have no page of their own. @type {Record<string, string>} */
const PLACES = {
  budget: "/usage/budgets", key: "/settings/keys", member: "/settings/members", model: "/models", secret: "/settings/secrets",
  session: "/settings", sign_in: "/settings/members", token: "/settings/tokens", webhook: "/settings/webhooks",
  workspace_keys: "/settings/encryption", config: "/settings/about", retention: "/settings/retention",
};
/** Names of things with pages; entries may have a folder instead, or an owner with a tool. @type {Record<string, RegExp>} */
const NAMES = { plugin: /^\w[\w-]*\/[\w-]+$/, skill: /^[\w-]+$/, tool: /^$/ };
/** Fields of entries by what they name. @type {Record<string, string>} */
const FIELDS = { channel: "channel", kb_id: "knowledge_base", pause_id: "pause", worker_id: "worker" };

/** The page of what an action was done to, or null. @param {string} action @param {string} target */
export function targetLink(action, target) {
  const family = action.split(".")[0];
  if (!target) return null;
  if (action === "channel.file_refused") return pageOf("run", target);
  if (family === "knowledge_document") return pageOf("knowledge_base", target.split("/")[0]);
  const kind = family === "decision" ? "pause" : family, known = NAMES[kind]?.test(target) ?? true;
  return (known ? pageOf(kind, target) : listOf(kind)) ?? PLACES[kind] ?? null;
}

/** The page that a field of an entry leads to, or null. @param {string} name @param {any} value */
export function fieldLink(name, value) {
  if (typeof value !== "string" || !value) return null;
  if (name === "run_id" || name.endsWith("_run_id")) return pageOf("run", value);
  if (name === "conversation_id") return conversationPage(value);
  if (name === "agent" || name === "agent_name") return `/runs?${new URLSearchParams({ agent: value })}`;
  if (name === "key_id" || name === "member_id") return `/audit?${new URLSearchParams({ target: value })}`;
  return pageOf(FIELDS[name] ?? "", value);
}
