// The rights of keys, as the API knows them, in the groups in which people look for them.

/** @type {string[]} */
export const RIGHTS = [
  "events:read", "events:write", "runs:read", "runs:write", "conversations:read", "conversations:write", "artifacts:read", "artifacts:write",
  "agents:read", "agents:write", "plugins:read", "models:read", "knowledge:read", "knowledge:write", "pauses:read", "pauses:write", "pauses:decide_blind", "usage:read",
  "budgets:read", "budgets:write", "audit:read", "secrets:read", "secrets:write", "workers:read", "workers:write",
  "workers:connect", "tokens:subject", "admin", "installation",
];
/** To chat with agents and answer their questions: what `hostler keys create` gives. */
export const USUAL = ["events:write", "events:read", "runs:read", "runs:write", "pauses:read", "pauses:write"];
export const ROLES = ["reader", "approver", "operator", "owner", "administrator"];
