// Markdown as elements: text becomes nothing but text, so that no message can be more than one.
const MAX_MARKDOWN = 100_000;
const SAFE_LINK = /^(?:https?:\/\/|mailto:)[^\s]+$/i;
const INLINE = /(?<!`)(`{1,3})(?!`)([^`]{1,5000})\1(?!`)|\*\*([^*\n](?:[^\n]*?[^*\n])?)\*\*|(?<![\w*])[*_]([^\s*_](?:[^*_\n]*[^\s*_])?)[*_](?!\w)|~~([^~\n]+)~~|!?\[([^\]\n]{0,500})\]\(<?([^\s()<>]{1,2000})>?(?: "[^"\n]*")?\)|(https?:\/\/[^\s<>"'`]{1,2000}[^\s<>"'`.,;:!?)\]])/g;

/** @param {string} name @param {any} [props] @param {...any} children */
function el(name, props = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(props)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (key in made && key !== "list") made[key] = value;
    else made.setAttribute(key, value);
  }
  made.append(...children.filter((one) => one !== null && one !== undefined));
  return made;
}

/** @param {string} href @param {any[]} inner */
const link = (href, inner) =>
  SAFE_LINK.test(href) ? el("a", { href, target: "_blank", rel: "noopener noreferrer nofollow" }, ...inner) : el("span", {}, ...inner);

/** @param {string} text @param {number} [depth] @returns {any[]} */
function inline(text, depth = 0) {
  if (depth > 5) return [text];
  const parts = [];
  let at = 0;
  for (const found of text.matchAll(INLINE)) {
    const [whole, , code, bold, italic, gone, label, href, bare] = found;
    parts.push(text.slice(at, found.index));
    at = found.index + whole.length;
    if (code !== undefined) parts.push(el("code", {}, code.trim() || code));
    else if (bold !== undefined) parts.push(el("strong", {}, ...inline(bold, depth + 1)));
    else if (italic !== undefined) parts.push(el("em", {}, ...inline(italic, depth + 1)));
    else if (gone !== undefined) parts.push(el("s", {}, ...inline(gone, depth + 1)));
    else if (href !== undefined) parts.push(link(href, label ? inline(label, depth + 1) : [href]));
    else parts.push(link(bare, [bare]));
  }
  parts.push(text.slice(at));
  return parts.filter((part) => part !== "");
}

/** A paragraph keeps its line breaks. @param {string[]} lines */
const lined = (lines) => lines.flatMap((line, number) => [...(number ? [el("br")] : []), ...inline(line)]);

/** @param {string[]} lines @param {RegExp} mark */
function listOf(lines, mark) {
  const items = [];
  for (const line of lines) {
    if (mark.test(line)) items.push([line.replace(mark, "")]);
    else items.at(-1).push(line.replace(/^ {1,4}|^\t/, ""));
  }
  return items.map((item) => el("li", {}, ...(item.length > 1 && /^\s*([-*+]|\d+[.)])\s/.test(item[1]) ? [...inline(item[0]), markdown(item.slice(1).join("\n"), 1)] : lined(item))));
}

const BULLET = /^\s{0,3}[-*+]\s+/;
const NUMBER = /^\s{0,3}\d{1,9}[.)]\s+/;
const ROW = /^\s*\|.*\|\s*$/;

/** @param {string} text @param {number} [depth] @returns {DocumentFragment} */
function markdown(text, depth = 0) {
  const made = document.createDocumentFragment();
  if (text.length > MAX_MARKDOWN || depth > 4) {
    made.append(text);
    return made;
  }
  const lines = text.replace(/\r\n?/g, "\n").split("\n");
  for (let at = 0; at < lines.length; ) {
    const line = lines[at];
    const fence = /^\s{0,3}(`{3,}|~{3,})/.exec(line);
    const heading = /^(#{1,6})\s+(.*?)\s*#*$/.exec(line);
    const from = at;
    const take = (/** @type {(line: string, number: number) => boolean} */ fits) => {
      while (at < lines.length && fits(lines[at], at - from)) at++;
      return lines.slice(from, at);
    };
    if (fence) {
      at++;
      while (at < lines.length && !lines[at].trim().startsWith(fence[1])) at++;
      made.append(el("pre", { tabIndex: 0 }, el("code", {}, lines.slice(from + 1, at).join("\n"))));
      at++;
    } else if (heading) {
      made.append(el("p", { className: "heading" }, el("strong", {}, ...inline(heading[2]))));
      at++;
    } else if (/^\s{0,3}([-*_])(\s*\1){2,}\s*$/.test(line)) {
      made.append(el("hr"));
      at++;
    } else if (/^\s{0,3}>/.test(line)) {
      const quoted = take((one) => /^\s{0,3}>/.test(one)).map((one) => one.replace(/^\s{0,3}> ?/, ""));
      made.append(el("blockquote", {}, markdown(quoted.join("\n"), depth + 1)));
    } else if (BULLET.test(line) || NUMBER.test(line)) {
      const mark = BULLET.test(line) ? BULLET : NUMBER;
      const items = listOf(take((one) => mark.test(one) || /^(?: {2,}|\t)\S/.test(one)), mark);
      const start = mark === NUMBER ? { start: Math.min(parseInt(line.trim(), 10), 1e6) } : {};
      made.append(el(mark === BULLET ? "ul" : "ol", start, ...items));
    } else if (ROW.test(line) && /^\s*\|[\s:|-]+\|\s*$/.test(lines[at + 1] ?? "")) {
      const cells = (/** @type {string} */ one) => one.trim().slice(1, -1).split("|").map((cell) => inline(cell.trim()));
      const [head, , ...rows] = take((one) => ROW.test(one));
      const row = (/** @type {string} */ one, /** @type {string} */ kind) => el("tr", {}, ...cells(one).slice(0, 50).map((cell) => el(kind, {}, ...cell)));
      made.append(el("div", { className: "wide", tabIndex: 0 }, el("table", {}, el("thead", {}, row(head, "th")), el("tbody", {}, ...rows.map((one) => row(one, "td"))))));
    } else if (!line.trim()) {
      at++;
    } else {
      const starts = /^\s{0,3}(?:`{3,}|~{3,}|>|#{1,6}\s)/;
      made.append(el("p", {}, ...lined(take((one, number) => one.trim() !== "" && (number === 0 || !(starts.test(one) || BULLET.test(one) || NUMBER.test(one)))))));
    }
  }
  return made;
}
