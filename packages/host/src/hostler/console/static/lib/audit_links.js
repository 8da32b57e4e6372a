// Where the things are that entries of the audit log name: pure.
import { address } from "./router.js";

/** @type {Record<string, string>} */
const PLACES = {
  agent: "/agents", budget: "/usage/budgets", key: "/settings/keys", member: "/settings/members", model: "/models", plugin: "/plugins",
  secret: "/settings/secrets", session: "/settings", sign_in: "/settings/members", skill: "/skills", token: "/settings/tokens", tool: "/tools",
  webhook: "/settings/webhooks", workspace_keys: "/settings/encryption", config: "/settings/about", retention: "/settings/retention",
};

/** The page of what an action was done to, or null. @param {string} action @param {string} target */
export function targetLink(action, target) {
  const family = action.split(".")[0];
  if (!target) return null;
  if (family === "run") return address("runs", target);
  if (family === "agent") return address("agents", target);
  if (family === "pause" || family === "decision") return address("approvals", target);
  return PLACES[family] ?? null;
}

/** The page that a field of an entry leads to, or null. @param {string} name @param {any} value */
export function fieldLink(name, value) {
  if (typeof value !== "string" || !value) return null;
  if (name === "run_id" || name.endsWith("_run_id")) return address("runs", value);
  if (name === "conversation_id") return `/runs?${new URLSearchParams({ conversation: value })}`;
  if (name === "agent" || name === "agent_name") return `/runs?${new URLSearchParams({ agent: value })}`;
  if (name === "pause_id") return address("approvals", value);
  if (name === "key_id") return `/audit?${new URLSearchParams({ target: value })}`;
  if (name === "member_id") return `/audit?${new URLSearchParams({ target: value })}`;
  return null;
}
