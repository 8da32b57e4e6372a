// OpenAI's client for JavaScript: a stream, a function of the caller, a conversation that goes on, a reader that
// was disconnected, errors. Writes what it saw as JSON.
import OpenAI from "openai";

const [baseURL, apiKey, steps] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey });
const weather = {
  type: "function",
  name: "weather",
  parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
  strict: null,
};
const seen = {};

const stream = client.responses.stream({ model: "player", input: steps, tools: [weather] });
seen.deltas = "";
stream.on("response.output_text.delta", (event) => (seen.deltas += event.delta));
const asked = await stream.finalResponse();
const call = asked.output.find((item) => item.type === "function_call");
seen.asked = { status: asked.status, text: asked.output_text, name: call.name, arguments: call.arguments };

const done = await client.responses.create({
  model: "player",
  previous_response_id: asked.id,
  input: [{ type: "function_call_output", call_id: call.call_id, output: "晴 ☀️" }],
});
seen.done = { status: done.status, text: done.output_text };

let last = -1;
let text = "";
let disconnects = 0;
for (let over = false; !over; disconnects++) {
  const query = last < 0 ? {} : { starting_after: last };
  const part = await client.responses.retrieve(done.id, { stream: true, ...query });
  let room = 2;
  for await (const event of part) {
    if (event.sequence_number !== last + 1) throw new Error(`${event.sequence_number} follows ${last}`);
    last = event.sequence_number;
    if (event.type === "response.output_text.delta") text += event.delta;
    over = event.type === "response.completed";
    if (--room === 0) break;
  }
}
seen.resumed = { text, often: disconnects > 2 };

const more = await client.responses.create({ model: "player", input: "and?", previous_response_id: done.id });
seen.same = more.conversation.id === asked.conversation.id;
const items = [];
for await (const item of client.conversations.items.list(more.conversation.id, { limit: 2, order: "asc" })) {
  items.push(item.role);
}
seen.roles = items;
seen.deleted = await client.conversations.delete(more.conversation.id);

try {
  await client.responses.create({ model: "gpt-6", input: "x" });
} catch (error) {
  seen.error = { status: error.status, code: error.code, param: error.param, kind: error.constructor.name };
}
console.log(JSON.stringify(seen));
