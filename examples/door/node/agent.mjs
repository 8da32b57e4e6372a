// An agent that knows of OpenAI and of a server with tools, and of nothing else: by variables of its environment.
// Its question comes by standard input; each line that it writes is a piece of its answer, as JSON.
import OpenAI from "openai";

const MAX_ROUNDS = 20;
let asked = 0;

/** Send a request to the server with tools (MCP, streamable HTTP), and return its result. */
async function mcp(method, params = {}) {
  const response = await fetch(process.env.AGENT_MCP_URL, {
    method: "POST",
    headers: {
      authorization: `Bearer ${process.env.OPENAI_API_KEY}`,
      accept: "application/json, text/event-stream",
      "content-type": "application/json",
    },
    body: JSON.stringify({ jsonrpc: "2.0", id: ++asked, method, params }),
  });
  const body = await response.text();
  const isStream = response.headers.get("content-type")?.startsWith("text/event-stream");
  const data = isStream ? body.split("\n").find((line) => line.startsWith("data: ")).slice(6) : body;
  const answer = JSON.parse(data);
  if (answer.error) throw new Error(`${method}: ${answer.error.message}`);
  return answer.result;
}

/** Call a tool of the server. What the model got wrong is answered to the model. */
async function call({ name, arguments: given }) {
  let parsed;
  try {
    parsed = JSON.parse(given || "{}");
  } catch (error) {
    return `error: the arguments are not JSON: ${error.message}`;
  }
  const result = await mcp("tools/call", { name, arguments: parsed });
  return result.content.map((part) => part.text ?? "").join("\n");
}

let question = "";
for await (const piece of process.stdin) question += piece;
const { tools: listed } = await mcp("tools/list");
const tools = listed.map(({ name, description, inputSchema: parameters }) => ({
  type: "function",
  function: { name, description, parameters },
}));
const client = new OpenAI();
const messages = [{ role: "user", content: question }];
for (let round = 0; round < MAX_ROUNDS; round++) {
  const stream = client.chat.completions.stream({ model: "default", messages, tools });
  stream.on("content", (piece) => process.stdout.write(JSON.stringify(piece) + "\n"));
  const { content, tool_calls: calls } = (await stream.finalChatCompletion()).choices[0].message;
  if (!calls?.length) process.exit(0);
  messages.push({ role: "assistant", content, tool_calls: calls });
  for (const wish of calls) {
    messages.push({ role: "tool", tool_call_id: wish.id, content: await call(wish.function) });
  }
}
console.error(`the model asked for tools in ${MAX_ROUNDS} rounds`);
process.exit(1);
