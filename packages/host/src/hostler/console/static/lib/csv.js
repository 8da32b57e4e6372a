// Tables as files. A text that a spreadsheet would take for a formula is written so that it stays a text.

const FORMULA = /^[\s\u0000-\u001f]*[=+\-@\t\r\n|%＝＋－＠]/;

/** @param {any} value */
export function cell(value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "number" || typeof value === "boolean") return String(value);
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return `"${(FORMULA.test(text) ? `'${text}` : text).replaceAll('"', '""')}"`;
}

/** Lines as RFC 4180 has them. @param {string[]} names @param {any[][]} rows */
export const csv = (names, rows) => [names, ...rows].map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";

/** Save a text as a file. @param {string} name @param {string} text @param {string} [type] */
export function save(name, text, type = "text/csv") {
  const url = URL.createObjectURL(new Blob(["\ufeff", text], { type: `${type};charset=utf-8` }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
