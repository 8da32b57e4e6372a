// The chat of docs/clients/ai-sdk.md in a page of React. Prints what the user sees as JSON.
// Arguments: the address of the agent, the key, the scripts of the messages that the user sends, the file that makes the
// run go on that the page leaves; after a reload also what the page had kept.
import { writeFileSync } from 'node:fs';
import { Window } from 'happy-dom';
import { createElement } from 'react';

const [api, key, scripts, gate, kept] = process.argv.slice(2);
const window = new Window({ url: 'http://localhost/' });
Object.assign(globalThis, { window, document: window.document });
const { createRoot } = await import('react-dom/client');
const { Chat } = await import('./chat.mjs');
const { returningTo } = await import('./returning.mjs');
const { tools, withScanner } = await import('./scanner.mjs');
const { stopRun } = await import('./stop.mjs');
const { transportTo } = await import('./transport.mjs');

const shown = selector => [...document.querySelectorAll(selector)].map(one => one.textContent);
const says = () => shown('.assistant p');
const click = selector => document.querySelector(selector).click();

function open(transport, { id = 'chat', messages = [] } = {}) {
  const root = createRoot(document.body.appendChild(document.createElement('div')));
  root.render(createElement(Chat, { id, transport, kept: messages, tools }));
  return root;
}
async function until(what, isSo) {
  const end = Date.now() + 60_000;
  while (!isSo()) {
    if (Date.now() > end) throw new Error(`${what} is not shown: ${document.body.innerHTML}`);
    await new Promise(resolve => setTimeout(resolve, 5));
  }
}
async function say(text) {
  const input = document.querySelector('input');
  input.value = text;
  input.form.dispatchEvent(new window.Event('submit', { bubbles: true, cancelable: true }));
}
const print = told => (console.log(JSON.stringify(told)), process.exit(0));
const [first, asks, scans, fails, holds, last] = JSON.parse(scripts);
const told = {};

if (kept === undefined) {
  open(withScanner(api, key));
  await until('the page', () => document.querySelector('input'));
  await say(first);
  await until('an approval', () => document.querySelector('.approve'));
  told.text = says();
  told.approval = shown('b');
  click('.approve');
  await until('what came of it', () => says().at(-1) === 'Bye.');
  told.calls = shown('code');

  await say(asks);
  await until('a question', () => document.querySelector('.answer'));
  told.question = shown('b');
  told.buttons = shown('.answer');
  click('.answer');
  await until('what was answered', () => says().at(-1).startsWith('answered'));
  told.answered = says().at(-1);

  await say(scans);
  await until('what the page scanned', () => says().at(-1) === 'Scanned.');
  told.scanned = says().at(-2);

  await say(fails);
  await until('an error', () => document.querySelector('#error'));
  told.error = shown('#error');

  await say(holds);
  await until('a part of the text', () => says().at(-1) === 'to be stopped');
  told.stopped = (await stopRun(api, key, 'chat')).status;

  await say(last);
  await until('a part of the text', () => says().at(-1) === '一,');
  print({ ...told, sections: document.querySelectorAll('section').length }); // as a page that is reloaded
}
const root = open(transportTo(api, key));
await until('a part of the text', () => says().at(-1) === '一,');
writeFileSync(gate, '');
await until('the rest', () => says().at(-1) === '一, 二.');
root.unmount();
open(returningTo(api, key, kept)); // the message is over
await until('a message of long ago', () => says().at(-1) === 'Bye.');
print({ again: says() });
