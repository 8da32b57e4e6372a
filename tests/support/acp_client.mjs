// An editor in JavaScript: the official SDK over `hostler acp`. Arguments: a JSON list with the command, and
// the steps of the agent. It writes what it saw as JSON.
import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";
import * as acp from "@agentclientprotocol/sdk/unstable";

const [command, cwd, steps] = JSON.parse(process.argv[2]);
const child = spawn(command[0], command.slice(1), { stdio: ["pipe", "pipe", "inherit"] });
const stream = acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
const { agent: A, client: C } = acp.methods;
const seen = { updates: [], asked: [], withdrawn: 0 };
let withdrawn;
const gone = new Promise((resolve) => (withdrawn = resolve));
let answers = ["allow", null];

const editor = acp
  .client({ name: "test" })
  .onNotification(C.session.update, ({ params }) => {
    seen.updates.push(params.update);
  })
  .onRequest(C.session.requestPermission, async (context) => {
    seen.asked.push(context.params);
    const chosen = answers.shift();
    if (chosen) return { outcome: { outcome: "selected", optionId: chosen } };
    context.signal.addEventListener("abort", () => {
      seen.withdrawn += 1;
      withdrawn();
    });
    await gone;
    return { outcome: { outcome: "cancelled" } };
  })
  .onRequest(C.fs.readTextFile, ({ params }) => ({ content: `text of ${params.path}` }))
  .onRequest(C.elicitation.create, ({ params }) => {
    seen.form = params;
    return { action: "accept", content: { size: "xl" } };
  });

const found = await editor.connectWith(stream, async (agent) => {
  const about = await agent.request(A.initialize, {
    protocolVersion: acp.PROTOCOL_VERSION,
    clientCapabilities: { fs: { readTextFile: true, writeTextFile: false }, elicitation: { form: {} } },
    clientInfo: { name: "javascript", version: "1" },
  });
  const session = await agent.request(A.session.new, { cwd, mcpServers: [] });
  const sessionId = session.sessionId;
  const prompt = (text) => agent.request(A.session.prompt, { sessionId, prompt: [{ type: "text", text }] });
  const answer = await prompt(steps.work);
  const text = seen.updates.filter((one) => one.sessionUpdate === "agent_message_chunk");
  const stop = new AbortController();
  const waiting = agent.request(
    A.session.prompt,
    { sessionId, prompt: [{ type: "text", text: steps.asks }] },
    { cancellationSignal: stop.signal, waitForCancellationResponse: true },
  );
  while (seen.asked.length < 2) await new Promise((resolve) => setTimeout(resolve, 20));
  stop.abort();
  const outcome = await waiting.then(
    (value) => value.stopReason,
    (error) => `${error.code}`,
  );
  await gone;
  const failed = await prompt(steps.fails).catch((error) => ({ code: error.code, message: error.message }));
  seen.updates.length = 0;
  await agent.request(A.session.load, { sessionId, cwd, mcpServers: [] });
  const list = await agent.request(A.session.list, {});
  await agent.request(A.session.close, { sessionId });
  return { about, session, answer, text, outcome, failed, loaded: seen.updates, sessions: list.sessions };
});
child.stdin.end();
process.stdout.write(JSON.stringify({ ...found, ...seen }));
