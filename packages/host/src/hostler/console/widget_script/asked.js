// What a run waits for: the visitor answers what it may, and of the rest it learns that a person decides.
const OVER = new Set(["approved", "denied", "expired", "answered", "cancelled"]);
const isOpen = (pause, call) => (pause.status === "open" || pause.status === "needs_review") && (call.review || call.decision === "undecided");

/** A field of a form, and what it says. @param {any} field @returns {{element: any, value: () => any}} */
function fieldOf(field) {
  const label = field.label || field.name;
  const options = (field.options ?? []).map((one) => (one !== null && typeof one === "object" ? { value: one.value ?? one.name, label: String(one.label ?? one.value ?? one.name) } : { value: one, label: String(one) }));
  const help = field.description ? el("span", { className: "help" }, ` ${field.description}`) : null;
  const first = field.default ?? null;
  if (field.type === "boolean") {
    const input = el("input", { type: "checkbox", checked: first === true });
    return { element: el("label", { className: "field" }, input, ` ${label}`, help), value: () => input.checked };
  }
  if (field.type === "multiselect") {
    const inputs = options.map((one) => el("input", { type: "checkbox", checked: Array.isArray(first) && first.includes(one.value) }));
    const rows = options.map((one, at) => el("label", { className: "field" }, inputs[at], ` ${one.label}`));
    return { element: el("fieldset", { className: "field" }, el("legend", {}, label, help), ...rows), value: () => options.filter((_, at) => inputs[at].checked).map((one) => one.value) };
  }
  if (field.type === "select") {
    const none = el("option", { value: "" }, t("choose"));
    const input = el("select", {}, none, ...options.map((one, at) => el("option", { value: String(at), selected: one.value === first }, one.label)));
    return { element: el("label", { className: "field" }, label, help, input), value: () => (input.value === "" ? null : options[Number(input.value)].value) };
  }
  const kind = field.type === "textarea" ? el("textarea", { rows: 3 }) : el("input", { type: field.type === "number" ? "number" : "text", step: "any" });
  kind.value = first === null ? "" : String(first);
  const value = () => (kind.value === "" ? null : field.type === "number" ? Number(kind.value) : kind.value);
  return { element: el("label", { className: "field" }, label, help, kind), value };
}

/** @param {any} pause @param {any} call */
function askedRow(pause, call) {
  if (!isOpen(pause, call)) {
    const outcome = OVER.has(call.decision) ? call.decision : null;
    return outcome && call.kind !== "client_tool" ? el("div", { className: "row note" }, t(outcome)) : null;
  }
  if (!call.may_decide || call.review || !["question", "approval"].includes(call.kind)) return el("div", { className: "row note" }, t("waits"));
  const error = el("p", { className: "bad", role: "alert", hidden: true });
  const buttons = /** @type {any[]} */ ([]);
  const fail = (/** @type {string} */ text) => Object.assign(error, { textContent: text, hidden: false });
  const act = async (/** @type {any} */ action) => {
    for (const one of buttons) one.disabled = true;
    try {
      await chat.decide(pause, { call_id: call.call_id, ...action });
    } catch (reason) {
      fail(reason instanceof Refusal && [403, 404, 409, 410].includes(reason.status) ? t("stale") : reason.message);
      for (const one of buttons) one.disabled = false;
    }
  };
  const make = (/** @type {string} */ label, /** @type {() => void} */ onclick, first = false) => {
    const made = el("button", { type: "button", className: first ? "choice first" : "choice", onclick }, label);
    buttons.push(made);
    return made;
  };
  const title = el("p", {}, el("strong", {}, call.title || call.tool || t("choose")));
  const about = [call.description, call.kind === "question" && !call.fields.length ? call.fallback_text : null].filter((one) => one && one !== call.title);
  const parts = [title, ...about.map((one) => el("div", {}, markdown(String(one))))];
  if (call.kind === "approval") {
    if (Object.keys(call.args).length) parts.push(el("pre", { tabIndex: 0 }, el("code", {}, JSON.stringify(call.args, null, 2).slice(0, 10_000))));
    make(t("approve"), () => act({ type: "approve", args_hash: call.args_hash }), true);
    make(t("deny"), () => act({ type: "deny", args_hash: call.args_hash }));
  } else {
    const usable = call.fields.filter((/** @type {any} */ field) => field.type !== "file");
    const only = usable.length === 1 && usable[0].type === "select" && !call.actions.length ? usable[0] : null;
    const fields = only ? [] : usable.map((/** @type {any} */ field) => ({ field, ...fieldOf(field) }));
    parts.push(...fields.map((one) => one.element));
    const answer = (/** @type {any} */ values, /** @type {string | null} */ action) => act({ type: "answer", values, ...(action !== null && { action }) });
    const send = (/** @type {string | null} */ action) => {
      const values = {};
      for (const { field, value } of fields) {
        const found = value();
        if (field.required && (found === null || (Array.isArray(found) && !found.length))) return void fail(t("missing", { name: field.label || field.name }));
        if (found !== null) values[field.name] = found;
      }
      answer(values, action);
    };
    if (only) {
      for (const one of (only.options ?? []).slice(0, 50)) {
        const value = one !== null && typeof one === "object" ? one.value ?? one.name : one;
        make(String(one?.label ?? value), () => answer({ [only.name]: value }, null));
      }
    } else if (call.actions.length) {
      call.actions.forEach((/** @type {any} */ one, /** @type {number} */ at) => make(one.label || one.name, () => send(one.name), at === 0));
    } else make(t("answer"), () => send(null), true);
  }
  return el("div", { className: "row asked", role: "group", "aria-label": call.title || call.tool || t("choose") }, ...parts, error, el("div", { className: "choices" }, ...buttons));
}
