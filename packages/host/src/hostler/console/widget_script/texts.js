// What the widget says itself, by the language of the page.
const TEXTS = {
  en: {
    chat: "Chat", open: "Open chat", unread: "Open chat: there is a new message", close: "Close chat", write: "Write a message",
    send: "Send", attach: "Attach a file", drop: "Remove {name}", stop: "Stop", fresh: "Start a new conversation", you: "You",
    agent: "Answer", sending: "Sending", refused: "Not sent: {why}", again: "Try again", discard: "Discard", offline: "No connection. Trying again …",
    works: "Writing an answer", waits: "Waiting for a person to decide", failed: "That did not work. Please try again.",
    approved: "A person has approved it", denied: "A person has denied it", expired: "Nobody has decided in time",
    answered: "Answered", cancelled: "Cancelled", approve: "Approve", deny: "Deny", answer: "Answer", yes: "Yes", no: "No", choose: "Choose …",
    missing: "Please fill in: {name}", large: "{name} is larger than {mib} MiB", upload: "{name} could not be sent: {why}",
    over: "This chat is not available.", many: "At most {count} files", file: "file", stale: "This has changed meanwhile.",
  },
  zh: {
    chat: "对话", open: "打开对话", unread: "打开对话：有新消息", close: "关闭对话", write: "输入消息",
    send: "发送", attach: "添加文件", drop: "移除 {name}", stop: "停止", fresh: "开始新对话", you: "您",
    agent: "回复", sending: "正在发送", refused: "未发送：{why}", again: "重试", discard: "放弃", offline: "连接已断开，正在重试…",
    works: "正在回复", waits: "正在等待人工处理", failed: "操作未成功，请重试。",
    approved: "人工已批准", denied: "人工已拒绝", expired: "未在规定时间内处理",
    answered: "已回答", cancelled: "已取消", approve: "批准", deny: "拒绝", answer: "回答", yes: "是", no: "否", choose: "请选择…",
    missing: "请填写：{name}", large: "{name} 超过 {mib} MiB", upload: "{name} 未能发送：{why}",
    over: "此对话暂不可用。", many: "最多 {count} 个文件", file: "文件", stale: "内容已变更。",
  },
};
const wished = (document.documentElement.lang || navigator.language || "en").toLowerCase().split("-")[0];
const LANGUAGE = WIDGET.languages.includes(wished) ? wished : WIDGET.languages[0];

/** @param {string} key @param {Record<string, any>} [values] */
const t = (key, values = {}) => TEXTS[LANGUAGE][key].replace(/\{(\w+)\}/g, (_, name) => String(values[name]));
/** A text of the configuration. @param {any} words */
const said = (words) => (typeof words === "string" ? words : words[LANGUAGE] ?? Object.values(words)[0] ?? "");
