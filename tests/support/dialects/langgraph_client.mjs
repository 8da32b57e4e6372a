// LangGraph's client for JavaScript, unmodified: a run that waits, joined, resumed. Prints what it read as JSON.
import { Client } from "@langchain/langgraph-sdk";

const [url, apiKey, steps] = process.argv.slice(2);
const client = new Client({ apiUrl: `${url}/langgraph`, apiKey, callerOptions: { maxRetries: 0 } });
const streamMode = ["values", "messages-tuple", "updates"];
const told = {};

async function collect(stream) {
  const parts = [];
  for await (const part of stream) parts.push(part);
  return parts;
}
const texts = (values) =>
  values.messages.filter((one) => one.type === "ai" && !one.tool_calls.length).map((one) => one.content);

told.assistants = (await client.assistants.search()).map((one) => one.assistant_id);
const { thread_id: thread } = await client.threads.create();
const input = { messages: [{ type: "human", content: steps }] };
told.first = await collect(client.runs.stream(thread, "player", { input, streamMode }));
const run = told.first[0].data.run_id;
told.tokens = told.first
  .filter((part) => part.event === "messages" && part.data[0].type === "AIMessageChunk")
  .map((part) => part.data[0].content)
  .join("");
const state = await client.threads.getState(thread);
const [interrupt] = state.tasks[0].interrupts;
told.interrupts = state.tasks[0].interrupts.length;
told.again = await collect(client.runs.joinStream(thread, run, { streamMode, lastEventId: "-1" }));
told.rest = await collect(client.runs.joinStream(thread, run, { streamMode, lastEventId: told.first[1].id }));
const resume = { [interrupt.id]: { decisions: [{ type: "approve" }] } };
told.texts = texts(await client.runs.wait(thread, "player", { command: { resume } }));
told.state = texts((await client.threads.getState(thread)).values);
try {
  await client.runs.wait(thread, "nobody", { input });
} catch (error) {
  told.refused = { status: error.status, message: error.message };
}
console.log(JSON.stringify(told));
