// Plays a chat with the AI SDK's own client, as a front end would: `chat.mjs PLAN`, a JSON object with `api`, `key`,
// `id`, the `steps` and, to go on with a chat, its `messages`. Prints the messages, and what went wrong.
// With `watch` it follows its last message to the end, over connections that break after `cuts` bytes, and prints what it
// is shown on the way, a JSON value per line; where an answer is awaited it goes on at a line of standard input.
// With `bare` it keeps of an approval nothing but what the AI SDK itself needs.
import { createInterface } from 'node:readline';
import {
  AbstractChat,
  DefaultChatTransport,
  lastAssistantMessageIsCompleteWithApprovalResponses,
  lastAssistantMessageIsCompleteWithToolCalls,
} from 'ai';

const plan = JSON.parse(process.argv[2]);
const seen = { statuses: [], errors: [], data: [], calls: [], finished: [] };

class State {
  constructor(messages) {
    this.messages = messages;
    this._status = 'ready';
    this.error = undefined;
    this.waiting = [];
  }
  get status() {
    return this._status;
  }
  set status(status) {
    this._status = status;
    seen.statuses.push(status);
  }
  pushMessage = message => (this.messages = [...this.messages, message]);
  popMessage = () => (this.messages = this.messages.slice(0, -1));
  replaceMessage = (index, message) => {
    this.messages = this.messages.map((one, at) => (at === index ? structuredClone(message) : one));
    this.waiting = this.waiting.filter(([holds, resolve]) => !holds(this.messages) || (resolve(), false));
  };
  snapshot = value => structuredClone(value);
  until = holds => new Promise(resolve => this.waiting.push([holds, resolve]));
}

class Chat extends AbstractChat {
  constructor({ messages, ...options }) {
    super({ ...options, state: new State(messages) });
  }
  until = holds => this.state.until(holds);
}

const breaking = cuts => async (url, init) => {
  const response = await fetch(url, init);
  if (!cuts.length || !response.body) return response;
  let left = cuts.shift();
  const cut = new TransformStream({
    transform(bytes, controller) {
      controller.enqueue(bytes.slice(0, left));
      if ((left -= bytes.length) <= 0) controller.error(new TypeError('the connection broke'));
    },
  });
  return new Response(response.body.pipeThrough(cut), { status: response.status, headers: response.headers });
};

const transport = new DefaultChatTransport({
  api: plan.api,
  fetch: breaking(plan.cuts ?? []),
  headers: { authorization: `Bearer ${plan.key}`, ...plan.headers },
  body: plan.body,
  // a message that ended meanwhile is replayed by its id
  prepareReconnectToStreamRequest: plan.late && (({ api, id, headers }) => ({
    api: `${api}/${id}/stream?message_id=${plan.messages.at(-1).id}`,
    headers,
  })),
});
const outputs = plan.outputs ?? {};
const chat = new Chat({
  id: plan.id,
  messages: plan.messages ?? [],
  transport,
  generateId: plan.prefix ? ((n = 0) => () => `${plan.prefix}${n++}`)() : undefined,
  sendAutomaticallyWhen: options =>
    lastAssistantMessageIsCompleteWithToolCalls(options) || lastAssistantMessageIsCompleteWithApprovalResponses(options),
  onError: error => seen.errors.push({ message: error.message, status: error.statusCode }),
  onData: part => seen.data.push(part),
  onFinish: ({ isAbort, isDisconnect, isError, finishReason }) =>
    seen.finished.push({ isAbort, isDisconnect, isError, finishReason }),
  onToolCall: ({ toolCall }) => {
    seen.calls.push({ name: toolCall.toolName, input: toolCall.input });
    const output = outputs[toolCall.toolName];
    if (output === undefined) return;
    const about = { tool: toolCall.toolName, toolCallId: toolCall.toolCallId };
    if (output.error !== undefined) chat.addToolOutput({ ...about, state: 'output-error', errorText: output.error });
    else chat.addToolOutput({ ...about, output: output.value });
  },
});

const idle = async () => {
  for (let quiet = 0; quiet < 3; quiet++) {
    while (chat.status === 'submitted' || chat.status === 'streaming') {
      quiet = 0;
      await new Promise(resolve => setTimeout(resolve, 10));
    }
    await new Promise(resolve => setTimeout(resolve, 20));
  }
};
const parts = () => chat.messages.flatMap(message => message.parts);

const print = value => process.stdout.write(JSON.stringify(value) + '\n');
const asked = () => parts().some(part => part.state === 'approval-requested');

async function watch(lines) {
  for (;;) {
    const before = seen.finished.length;
    await chat.resumeStream();
    await idle();
    const end = seen.finished.at(-1);
    if (seen.finished.length === before || end.isDisconnect || end.isError) await new Promise(go => setTimeout(go, 50));
    else if (!asked()) return;
    else {
      print({ asked: true });
      const { value } = await lines.next();
      if (value === 'decided') continue;
      for (const part of parts().filter(one => one.state === 'approval-requested'))
        await chat.addToolApprovalResponse({ id: part.approval.id, approved: value === 'approve' });
      await idle();
    }
  }
}

if (plan.watch) {
  const shown = setInterval(() => print({ text: parts().map(part => part.text ?? '').join('') }), 20);
  await watch(createInterface({ input: process.stdin })[Symbol.asyncIterator]());
  clearInterval(shown);
}
for (const step of plan.steps) {
  if (step.send !== undefined) await chat.sendMessage({ text: step.send, files: step.files });
  if (step.edit !== undefined) await chat.sendMessage({ text: step.edit, messageId: chat.messages[0].id });
  if (step.again !== undefined) await transport
    .sendMessages({ chatId: plan.id, messages: chat.messages.slice(0, step.again), trigger: 'submit-message' })
    .then(async stream => {
      for await (const chunk of stream) seen.data.push(chunk);
    });
  if (step.bare !== undefined)
    chat.messages = chat.messages.map(message => ({
      ...message,
      parts: message.parts.map(({ approval, ...part }) => (approval ? { ...part, approval: { id: approval.id } } : part)),
    }));
  if (step.approved !== undefined)
    for (const part of parts().filter(one => one.state === 'approval-requested' && one.toolName === (step.of ?? one.toolName)))
      await chat.addToolApprovalResponse({ id: part.approval.id, approved: step.approved, reason: step.reason });
  if (step.output !== undefined)
    for (const part of parts().filter(one => one.type === `tool-${step.tool}` && one.state === 'input-available'))
      await chat.addToolOutput({ tool: step.tool, toolCallId: part.toolCallId, output: step.output });
  if (step.regenerate !== undefined) await chat.regenerate();
  if (step.resume !== undefined) await chat.resumeStream();
  if (step.leave !== undefined) {
    // go away as soon as some text is there
    const sent = chat.sendMessage({ text: step.leave });
    await chat.until(messages => JSON.stringify(messages.filter(one => one.role === "assistant")).includes(step.once));
    await chat.stop();
    await sent;
  }
  await idle();
}
process.stdout.write(JSON.stringify({ messages: chat.messages, status: chat.status, ...seen }));
process.exit(0);
