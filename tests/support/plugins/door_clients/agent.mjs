// A program that knows of OpenAI and of nothing else: OPENAI_BASE_URL and OPENAI_API_KEY are its door.
import OpenAI from "openai";
import readline from "node:readline";

const tools = [
  {
    type: "function",
    function: {
      name: "price",
      parameters: { type: "object", properties: { thing: { type: "string" } }, required: ["thing"] },
    },
  },
];
const say = (value) => process.stdout.write(JSON.stringify(value) + "\n");
const input = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const client = new OpenAI();
const messages = [{ role: "user", content: "What does a lamp cost?" }];
const first = await client.chat.completions.create({ model: "default", messages, tools });
const said = first.choices[0].message;
const [call] = said.tool_calls;
say({ call: JSON.parse(call.function.arguments) });
const result = JSON.parse((await input.next()).value);
messages.push(said, { role: "tool", tool_call_id: call.id, content: result });
const stream = await client.chat.completions.create({
  model: "default",
  messages,
  tools,
  stream: true,
  stream_options: { include_usage: true },
});
let tokens = null;
for await (const chunk of stream) {
  const piece = chunk.choices[0]?.delta?.content;
  if (piece) say({ piece });
  tokens = chunk.usage?.total_tokens ?? tokens;
}
const answer = client.responses.stream({ model: "default", input: "Thanks!" });
const events = [];
for await (const event of answer) events.push(event.type);
const response = (await answer.finalResponse()).output_text;
let refused = null;
try {
  await new OpenAI({ apiKey: "another", maxRetries: 0 }).models.list();
} catch (error) {
  refused = error.status;
}
say({ tokens, response, first: events[0], last: events.at(-1), refused });
process.exit(0);
