// Where the pages of things are, for a reader who may open them.
import { address } from "./router.js";
import { may } from "./session.js";

/** @type {Record<string, [string, string]>} */
const PAGES = {
  agent: ["agents", "agents:read"], channel: ["channels", "plugins:read"], hook: ["hooks", "installation"],
  knowledge_base: ["knowledge", "knowledge:read"], mcp_server: ["mcp-servers", "plugins:read"], pause: ["approvals", "pauses:read"],
  plugin: ["plugins", "plugins:read"], run: ["runs", "runs:read"], schedule: ["schedules", "agents:read"], skill: ["skills", "plugins:read"],
  tool: ["tools", "plugins:read"], worker: ["workers", "workers:read"],
};

/** The page of a thing; null without one, and without the right to read it. @param {string} kind @param {string | null | undefined} name */
export function pageOf(kind, name) {
  const list = listOf(kind);
  return name && list ? list + address(name) : null;
}

/** The list of the things of a kind; null without one, and without the right to read it. @param {string} kind */
export function listOf(kind) {
  const found = PAGES[kind];
  return found && may(found[1]) ? address(found[0]) : null;
}

/**
 * Where the messages of a conversation are, or its runs for who may not read those; null for who may read neither.
 * @param {string | null | undefined} id
 */
export function conversationPage(id) {
  if (!id || !may("runs:read")) return null;
  return may("conversations:read") ? address("chat", id) : runsOfConversation(id);
}

/** The runs of a conversation. @param {string} id */
export const runsOfConversation = (id) => `/runs?${new URLSearchParams({ conversation: id })}`;

/** The page of the plugin that has a runner. @param {string} runner such as `plugin:acme/echo/default` */
export const pluginPageOf = (runner) => pageOf("plugin", /^plugin:([^/]+\/[^/]+)\//.exec(runner)?.[1]);

/** Where it is told who somebody is, or what they did. @param {string} actor such as `run:ID` or `user:ada` */
export function actorPage(actor) {
  const [, kind, name] = /^(run|channel):(.+)$/s.exec(actor) ?? [];
  if (kind) return pageOf(kind, name);
  return actor && may("audit:read") ? `/audit?${new URLSearchParams({ actor })}` : null;
}
