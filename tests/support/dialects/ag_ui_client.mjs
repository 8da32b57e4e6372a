// Drives the official client, unmodified, by commands from standard input: one JSON value per line.
// Each event that its verification lets through is a line of standard output, and so is the end of a command.
import { createInterface } from "node:readline";
import { resuming } from "./resuming.mjs"; // of docs/clients/ag-ui.md, as is ThreadAgent
import { ThreadAgent } from "./thread.mjs";

const options = JSON.parse(process.argv[2]);
let bytesLeft = Infinity;

const print = (value) => process.stdout.write(JSON.stringify(value) + "\n");

// A network that breaks a response off after some bytes, wherever that is.
const breaking = (cuts) => async (url, init) => {
  const response = await fetch(url, init);
  if (!response.body || !cuts.length) return response;
  let left = cuts.shift();
  const reader = response.body.getReader();
  const body = new ReadableStream({
    async pull(controller) {
      const { done, value } = await reader.read();
      if (done) return controller.close();
      if (value.length >= left) {
        controller.enqueue(value.slice(0, left));
        await reader.cancel();
        return controller.error(new TypeError("the connection broke"));
      }
      left -= value.length;
      controller.enqueue(value);
    },
    cancel: () => reader.cancel(),
  });
  return new Response(body, { status: response.status, headers: response.headers });
};

let network = breaking(options.cuts ?? []);
if (options.resuming) network = resuming(network);
const Agent = options.old ? (await import("ag-ui-client-of-copilotkit")).HttpAgent : ThreadAgent;
const agent = new Agent({
  url: options.url,
  headers: options.headers ?? {},
  threadId: options.threadId,
  initialMessages: options.messages ?? [],
  initialState: options.state ?? {},
  fetch: network,
});
agent.subscribe({
  onEvent: ({ event }) => print({ event }),
  onRunFinishedEvent: ({ outcome, pendingToolCallIds }) => print({ finished: { outcome, pendingToolCallIds } }),
});
console.error = () => {};
console.warn = (...words) => print({ warning: words.join(" ") });

const state = () => ({
  messages: agent.messages,
  state: agent.state,
  interrupts: agent.pendingInterrupts,
  threadId: agent.threadId,
});

const run = async (command) => {
  for (const message of command.say ?? []) agent.addMessage(message);
  if (command.setState !== undefined) agent.setState(command.setState);
  try {
    if (command.connect) await agent.connectAgent();
    else await agent.runAgent(command.run ?? {});
    print({ done: state() });
  } catch (error) {
    print({ failed: { message: String(error.message), status: error.status, payload: error.payload }, ...state() });
  }
};

for await (const line of createInterface({ input: process.stdin })) {
  const command = JSON.parse(line);
  if (command.abort) agent.abortRun();
  else if (command.forget) agent.pendingInterrupts = [];
  else void run(command);
}
