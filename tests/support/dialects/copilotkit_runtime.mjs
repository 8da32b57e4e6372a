// CopilotKit's runtime in Node.js with the agents of the page, and its own client in front of it.
// node copilotkit_runtime.mjs URL KEY FIRST TOOL APPROVAL SEEN FAILS: messages of one thread; prints what the client has.
import { createServer } from "node:http";
import { ProxiedCopilotRuntimeAgent } from "@copilotkit/core";
import { CopilotRuntime } from "@copilotkit/runtime/v2";
import { createCopilotNodeListener } from "@copilotkit/runtime/v2/node";

const [url, key, first, tool, approval, seen, fails] = process.argv.slice(2);
Object.assign(process.env, { HOSTLER_URL: url, HOSTLER_KEY: key, COPILOTKIT_TELEMETRY_DISABLED: "true" });
const { agents } = await import("./copilot.mjs");
const runtime = new CopilotRuntime({ agents });
const server = createServer(createCopilotNodeListener({ runtime, basePath: "/api/copilotkit" }));
await new Promise((done) => server.listen(0, "127.0.0.1", done));
const runtimeUrl = `http://127.0.0.1:${server.address().port}/api/copilotkit`;

const info = await (await fetch(`${runtimeUrl}/info`)).json();
const agent = new ProxiedCopilotRuntimeAgent({ runtimeUrl, agentId: "guide", threadId: "a thread", transport: "rest" });
const types = [];
let last;
const run = async (message, options = {}) => {
  if (message) agent.addMessage(message);
  types.push([]);
  await agent.runAgent(options, { onEvent: ({ event }) => void types.at(-1).push((last = event).type) });
};
const user = (id, content) => ({ id, role: "user", content });

const tools = [{ name: "color", description: "the color of a thing on the page", parameters: { type: "object" } }];
await run(user("u1", first));
await run(user("u2", tool), { tools });
const asked = agent.messages.at(-1).toolCalls?.[0];
if (asked) await run({ id: "t1", role: "tool", toolCallId: asked.id, content: "blue" }, { tools });
await run(user("u3", approval));
const interrupts = last.outcome.interrupts.map(({ reason }) => reason);
const yes = ({ id }) => ({ interruptId: id, status: "resolved", payload: { approved: true } });
await run(undefined, { resume: last.outcome.interrupts.map(yes) });
agent.setState({ theme: "dark" });
await run(user("u4", seen), { context: [{ description: "the open page", value: "lamps" }] });
const given = JSON.parse(agent.messages.at(-1).content).data.ag_ui;
const failed = await run(user("u5", fails)).then(() => null, (error) => String(error));

console.log(JSON.stringify({ agents: Object.keys(info.agents), messages: agent.messages, types, interrupts, given, failed }));
process.exit(0);
