// The chat of docs/clients/langgraph.md in a page, reloaded in the middle of a stream. Prints what the user sees as JSON.
// Arguments: address, key, the scripts of the messages that the user sends, the file that the last one waits for, and
// after a reload what the page had kept.
import { writeFileSync } from "node:fs";
import { Window } from "happy-dom";
import { createElement } from "react";

const [url, apiKey, scripts, gate, kept] = process.argv.slice(2);
const window = new Window({ url: "http://localhost/" });
Object.assign(globalThis, { window, document: window.document });
const { createRoot } = await import("react-dom/client");
const { Chat } = await import("./chat.mjs");

const before = kept === undefined ? { storage: {} } : JSON.parse(kept);
for (const [name, value] of Object.entries(before.storage)) window.sessionStorage.setItem(name, value);
let threadId = before.threadId ?? null;
const root = createRoot(document.body.appendChild(document.createElement("div")));
const shown = (selector) => [...document.querySelectorAll(selector)].map((one) => one.textContent);

function show() {
  const onThreadId = (id) => ((threadId = id), show());
  root.render(createElement(Chat, { apiUrl: `${url}/langgraph`, apiKey, assistantId: "player", threadId, onThreadId }));
}
async function until(what, isSo) {
  const end = Date.now() + 60_000;
  while (!isSo()) {
    if (Date.now() > end) throw new Error(`${what} is not shown: ${document.body.innerHTML}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
async function say(text) {
  const input = document.querySelector("input");
  input.value = text;
  input.form.dispatchEvent(new window.Event("submit", { bubbles: true, cancelable: true }));
  await until("a run", () => document.querySelector("#stop"));
}
const idle = () => until("the end", () => !document.querySelector("#stop"));

const told = {};
show();
await until("the page", () => document.querySelector("input"));
if (kept === undefined) {
  const [first, waits, fails, holds, last] = JSON.parse(scripts);
  await say(first);
  await until("a part of the text", () => shown(".ai").includes("你好"));
  told.parts = shown(".ai");
  writeFileSync(`${gate}-first`, "");
  await idle();
  told.text = shown(".ai");

  await say(waits);
  await until("an approval", () => document.querySelector("#approve"));
  told.approval = shown("section b");
  document.querySelector("#approve").click();
  await until("what came of it", () => shown(".ai").at(-1) === "Bye.");
  await idle();
  told.calls = shown("code");
  told.approved = shown("section").length;

  await say(fails);
  await until("an error", () => document.querySelector("#error"));
  told.error = shown("#error");
  await say(holds);
  await until("a part of the text", () => shown(".ai").at(-1) === "to be stopped");
  document.querySelector("#stop").click();
  await idle();
  await say(last);
  await until("a part of the text", () => shown(".ai").at(-1) === "一,");
  const storage = Object.fromEntries(Object.keys(window.sessionStorage).map((name) => [name, window.sessionStorage.getItem(name)]));
  console.log(JSON.stringify({ ...told, kept: { threadId, storage } }));
  process.exit(0); // as a page that is reloaded: its connection breaks off
}
await until("a part of the text", () => shown(".ai").at(-1) === "一,");
told.again = shown(".ai").slice(-1);
writeFileSync(gate, "");
await until("the rest", () => shown(".ai").at(-1) === "一, 二.");
await idle();
told.texts = shown(".ai");
told.stored = window.sessionStorage.length;
console.log(JSON.stringify(told));
process.exit(0);
