// CopilotKit's runtime in Node.js with the agents of the page, and its own client in front of it.
// node copilotkit_runtime.mjs URL KEY FIRST SECOND THIRD: three messages of one thread; prints what the client has.
import { createServer } from "node:http";
import { ProxiedCopilotRuntimeAgent } from "@copilotkit/core";
import { CopilotRuntime } from "@copilotkit/runtime/v2";
import { createCopilotNodeListener } from "@copilotkit/runtime/v2/node";

const [url, key, first, second, third] = process.argv.slice(2);
Object.assign(process.env, { HOSTLER_URL: url, HOSTLER_KEY: key, COPILOTKIT_TELEMETRY_DISABLED: "true" });
const { agents } = await import("./copilot.mjs");
const runtime = new CopilotRuntime({ agents });
const server = createServer(createCopilotNodeListener({ runtime, basePath: "/api/copilotkit" }));
await new Promise((done) => server.listen(0, "127.0.0.1", done));
const runtimeUrl = `http://127.0.0.1:${server.address().port}/api/copilotkit`;

const info = await (await fetch(`${runtimeUrl}/info`)).json();
const agent = new ProxiedCopilotRuntimeAgent({ runtimeUrl, agentId: "guide", threadId: "a thread", transport: "rest" });
const types = [];
const run = async (message, options = {}) => {
  agent.addMessage(message);
  types.push([]);
  await agent.runAgent(options, { onEvent: ({ event }) => void types.at(-1).push(event.type) });
};
const user = (id, content) => ({ id, role: "user", content });

const tools = [{ name: "color", description: "the color of a thing on the page", parameters: { type: "object" } }];
await run(user("u1", first));
await run(user("u2", second), { tools });
const asked = agent.messages.at(-1).toolCalls?.[0];
if (asked) await run({ id: "t1", role: "tool", toolCallId: asked.id, content: "blue" }, { tools });
const failed = await run(user("u3", third)).then(() => null, (error) => String(error));

console.log(JSON.stringify({ agents: Object.keys(info.agents), messages: agent.messages, types, failed }));
process.exit(0);
