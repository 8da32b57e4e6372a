// Crons by LangGraph's client for JavaScript, unmodified: made; and, once one has fired, looked at, changed and removed.
import { Client } from "@langchain/langgraph-sdk";

const [url, apiKey, made] = process.argv.slice(2);
const client = new Client({ apiUrl: `${url}/langgraph`, apiKey, callerOptions: { maxRetries: 0 } });
const input = { messages: [{ type: "human", content: "早报 👩‍👩‍👧" }] };
const statusOf = (call) => call.then(() => null, (error) => error.status);
const told = {};

if (made === undefined) {
  const { thread_id: thread } = await client.threads.create();
  const given = { schedule: "30 7 * * mon-fri", timezone: "Asia/Shanghai", input, metadata: { user: "ada" } };
  told.cron = await client.crons.createForThread(thread, "player", { ...given, streamMode: ["values"], multitaskStrategy: "enqueue" });
  told.other = await client.crons.create("player", { ...given, endTime: "2190-01-01T00:00:00Z", onRunCompleted: "keep", enabled: false });
  told.refused = [
    await statusOf(client.crons.create("player", { ...given, webhook: "https://a.example" })),
    await statusOf(client.crons.create("nobody", given)),
  ];
} else {
  const { cron, other } = JSON.parse(made);
  const [run] = await client.runs.list(cron.thread_id);
  told.messages = (await client.runs.join(cron.thread_id, run.run_id)).messages.map((one) => one.content);
  told.user = run.metadata.user;
  const ids = (found) => found.map((one) => one.cron_id);
  told.searched = ids(await client.crons.search({ metadata: { user: "ada" }, sortBy: "created_at", sortOrder: "asc" }));
  told.ofThread = ids(await client.crons.search({ threadId: cron.thread_id, select: ["cron_id"] }));
  told.counted = [await client.crons.count(), await client.crons.count({ threadId: cron.thread_id })];
  told.changed = await client.crons.update(other.cron_id, { schedule: "*/5 * * * * 30", endTime: null, enabled: true });
  told.deleted = [await statusOf(client.crons.delete(cron.cron_id)), await statusOf(client.crons.delete(cron.cron_id))];
  told.left = ids(await client.crons.search());
}
console.log(JSON.stringify(told));
