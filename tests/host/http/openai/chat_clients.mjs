// OpenAI's client for JavaScript at a host: text, a stream with tools of the client, errors, and models.
import OpenAI from "openai";

const [url, key] = process.argv.slice(2);
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: key });
const found = {};

found.models = (await client.models.list()).data.map((model) => model.id);

const tools = [{ type: "function", function: { name: "weather", parameters: { type: "object" } } }];
const script = JSON.stringify([
  ["say", "让我看看 👀"],
  ["together", [["tool", "weather", { town: "北京" }, "m1"], ["tool", "weather", { town: "Oslo" }, "m2"]]],
]);
const messages = [{ role: "user", content: script }];
const first = await client.chat.completions.stream({ model: "player", messages, tools }).finalChatCompletion();
found.first = first.choices[0];
messages.push(first.choices[0].message);
for (const call of first.choices[0].message.tool_calls) {
  messages.push({ role: "tool", tool_call_id: call.id, content: JSON.parse(call.function.arguments).town });
}
found.second = (await client.chat.completions.create({ model: "player", messages })).choices[0];

found.errors = [];
for (const body of [
  { model: "gpt", messages },
  { model: "player", messages: [{ role: "user", content: JSON.stringify([["fail", "糟糕"]]) }] },
]) {
  try {
    await client.chat.completions.create(body);
  } catch (error) {
    found.errors.push([error.status, error.code]);
  }
}
try {
  const stream = await client.chat.completions.create({
    model: "player",
    messages: [{ role: "user", content: JSON.stringify([["fail", "糟糕"]]) }],
    stream: true,
  });
  for await (const chunk of stream) void chunk;
} catch (error) {
  found.errors.push([error.constructor.name, error.code]);
}
console.log(JSON.stringify(found));
