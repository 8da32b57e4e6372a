// How it looks. A constructed sheet: a page that forbids styles of others needs no exception for it.
const bright = (() => {
  const [r, g, b] = [1, 3, 5].map((at) => parseInt(WIDGET.colour.slice(at, at + 2), 16) / 255).map((one) => (one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
})();
const SHEET = `
:host{all:initial;--own:${WIDGET.colour};--on-own:${bright > 0.179 ? "#000" : "#fff"};--back:#fff;--text:#1c2024;--soft:#5b6470;--line:#d5dae0;--agent:#f0f2f5;--bad:#b3261e;
position:fixed;inset:auto 0 0 auto;z-index:2147483000;font:15px/1.5 system-ui,-apple-system,"Segoe UI","PingFang SC","Microsoft YaHei","Noto Sans CJK SC",sans-serif;color:var(--text);color-scheme:light dark}
@media (prefers-color-scheme:dark){:host{--back:#17191c;--text:#e8eaed;--soft:#a3abb5;--line:#3a4048;--agent:#262a2f;--bad:#ff8a80}}
*,*::before{box-sizing:border-box}
[hidden]{display:none!important}
button,input,select,textarea{font:inherit;color:inherit}
button{cursor:pointer}
button:disabled{cursor:default;opacity:.5}
:focus-visible{outline:3px solid var(--text);outline-offset:2px}
.launch{position:fixed;right:20px;bottom:20px;width:56px;height:56px;border:0;border-radius:50%;background:var(--own);color:var(--on-own);box-shadow:0 2px 12px #0006;display:grid;place-items:center}
.launch .dot{position:absolute;top:2px;right:2px;width:14px;height:14px;border-radius:50%;background:#d93025;border:2px solid #fff}
svg{width:24px;height:24px;fill:none;stroke:currentColor;stroke-width:2;stroke-linecap:round;stroke-linejoin:round;display:block}
.panel{position:fixed;right:20px;bottom:88px;width:min(400px,calc(100vw - 40px));height:min(640px,calc(100dvh - 108px));display:flex;flex-direction:column;background:var(--back);border:1px solid var(--line);border-radius:14px;overflow:hidden;box-shadow:0 8px 40px #0005}
header{display:flex;align-items:center;gap:4px;padding:10px 8px 10px 16px;background:var(--own);color:var(--on-own)}
header h2{flex:1;margin:0;font-size:16px;overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
header :focus-visible{outline-color:var(--on-own)}
.plain{border:0;background:none;padding:10px;border-radius:8px;display:grid;place-items:center;min-width:44px;min-height:44px}
.notice{padding:6px 16px;background:var(--agent);color:var(--text);font-size:13px}
.log{flex:1;overflow-y:auto;overscroll-behavior:contain;padding:16px;display:flex;flex-direction:column;gap:10px}
.row{max-width:88%;overflow-wrap:anywhere;unicode-bidi:isolate}
.row.agent,.row.asked{align-self:flex-start;background:var(--agent);border-radius:12px;padding:8px 12px}
.row.person{align-self:flex-end;background:var(--own);color:var(--on-own);border-radius:12px;padding:8px 12px;white-space:pre-wrap}
.row.note{align-self:center;color:var(--soft);font-size:13px;text-align:center}
.row.bad,.bad{color:var(--bad)}
.row .state{font-size:12px;margin-top:4px;white-space:normal}
.row.asked{border:1px solid var(--line);width:88%}
p,ul,ol,pre,blockquote,.wide{margin:0 0 8px}
.row>:last-child,blockquote>:last-child{margin-bottom:0}
ul,ol{padding-inline-start:22px}
a{color:inherit;text-decoration:underline}
pre{overflow-x:auto;padding:8px;border-radius:6px;background:var(--back);border:1px solid var(--line)}
code{font:13px/1.45 ui-monospace,Menlo,Consolas,monospace}
blockquote{border-inline-start:3px solid var(--line);padding-inline-start:10px}
hr{border:0;border-top:1px solid var(--line);margin:8px 0}
.wide{overflow-x:auto}
table{border-collapse:collapse;font-size:13px}
td,th{border:1px solid var(--line);padding:3px 7px;text-align:start;overflow-wrap:normal}
.files{display:flex;flex-wrap:wrap;gap:6px;margin-top:6px}
.files:empty{display:none}
.chip,.choice{border:1px solid currentColor;background:none;border-radius:8px;padding:6px 12px;min-height:40px;max-width:100%;overflow:hidden;text-overflow:ellipsis}
.choice.first{background:var(--own);color:var(--on-own);border-color:var(--own)}
.choices{display:flex;flex-wrap:wrap;gap:8px;margin-top:8px}
.field{display:block;margin:8px 0}
.field input:not([type=checkbox]),.field select,.field textarea{display:block;width:100%;padding:8px;margin-top:2px;border:1px solid var(--soft);border-radius:8px;background:var(--back)}
.help{color:var(--soft);font-size:13px}
.dots{display:inline-flex;gap:4px;padding:6px 0}
.dots i{width:7px;height:7px;border-radius:50%;background:var(--soft);animation:beat 1.2s infinite}
.dots i:nth-child(2){animation-delay:.2s}.dots i:nth-child(3){animation-delay:.4s}
@keyframes beat{30%{opacity:.25}}
@media (prefers-reduced-motion:reduce){.dots i{animation:none}}
form.write{display:flex;align-items:flex-end;gap:2px;padding:8px;border-top:1px solid var(--line)}
form.write textarea{flex:1;min-width:0;resize:none;max-height:140px;padding:10px;border:1px solid var(--soft);border-radius:10px;background:var(--back)}
form.write textarea:focus-visible{outline-width:2px;outline-offset:-1px}
::placeholder{color:var(--soft);opacity:1}
.waiting{padding:0 12px 8px}
.off{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap}
@media (max-width:480px){.panel{inset:0;width:100%;height:100%;border:0;border-radius:0}.panel:not([hidden])~.launch{display:none}form.write textarea,.field input,.field select,.field textarea{font-size:16px}}
@media (forced-colors:active){.launch,.row,.choice{border:1px solid}}
`;
const ICONS = {
  chat: "M21 12a8 8 0 0 1-8 8H4l2-3a8 8 0 1 1 15-5Z", close: "M6 6l12 12M18 6L6 18", send: "M4 12l16-8-6 16-3-7-7-1Z",
  attach: "M20 11l-8.5 8.5a5 5 0 0 1-7-7L13 4a3.3 3.3 0 0 1 4.7 4.7L9.5 17a1.7 1.7 0 0 1-2.4-2.4L15 6.7", stop: "M7 7h10v10H7Z", fresh: "M12 5v14M5 12h14",
};
/** @param {string} name */
function icon(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  path.setAttribute("d", ICONS[name]);
  svg.append(path);
  return svg;
}
/** @param {string} className @param {string} name @param {string} label @param {() => void} onclick */
const button = (className, name, label, onclick) => el("button", { type: "button", className, "aria-label": label, title: label, onclick }, icon(name));
