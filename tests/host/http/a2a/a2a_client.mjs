// A2A's client for JavaScript, unmodified: sends a message, answers an approval, and tells what it saw as JSON.
import { randomUUID } from "node:crypto";
import { ClientFactory, DefaultAgentCardResolver, JsonRpcTransportFactory, RestTransportFactory } from "@a2a-js/sdk/client";
import { Role } from "@a2a-js/sdk";

const [url, key, binding, text] = process.argv.slice(2);
const fetchImpl = (place, init = {}) => {
  const headers = new Headers(init.headers);
  headers.set("authorization", `Bearer ${key}`);
  return fetch(place, { ...init, headers });
};
const transport = binding === "JSONRPC" ? new JsonRpcTransportFactory({ fetchImpl }) : new RestTransportFactory({ fetchImpl });
const factory = new ClientFactory({
  transports: [transport],
  cardResolver: new DefaultAgentCardResolver({ fetchImpl }),
});
const client = await factory.createFromUrl(`${url}/a2a/player/`);
const message = (content, taskId = "") => ({
  messageId: randomUUID(),
  contextId: "",
  taskId,
  role: Role.ROLE_USER,
  parts: [{ content, metadata: undefined, filename: "", mediaType: "" }],
  metadata: undefined,
  extensions: [],
  referenceTaskIds: [],
});
const events = [];
const send = async (one) => {
  for await (const event of client.sendMessageStream({ message: one })) events.push(event);
};
await send(message({ $case: "text", value: text }));
const last = events.at(-1).payload.value;
const asked = (last.status.message?.parts ?? []).filter((part) => part.content.$case === "data");
if (asked.length) {
  const answer = { id: asked[0].content.value.id, approved: true };
  await send(message({ $case: "data", value: answer }, last.taskId));
}
const task = await client.getTask({ id: last.taskId, tenant: "" });
let refused = "";
try {
  await client.getTask({ id: "nothing", tenant: "" });
} catch (error) {
  refused = error.name;
}
const kinds = events.map((event) => event.payload.$case);
const texts = task.artifacts.map((one) => one.parts.map((part) => part.content.value).join(""));
console.log(JSON.stringify({ kinds, texts, state: task.status.state, asked: asked.length, refused }));
