// The start, and what pages may call: Hostler.open(), Hostler.close(), Hostler.tokens.
const asked = /** @type {any} */ (window).Hostler ?? {};
if (typeof asked.tokens === "function") access.ask = async () => asked.tokens();
else if (TOKENS) {
  access.ask = async () => {
    const answer = await fetch(TOKENS, { method: "POST", headers: { Accept: "application/json" } });
    if (!answer.ok) throw new Refusal(answer.status >= 500 ? 503 : answer.status, null, 0);
    return answer.json();
  };
}
/** @type {any} */ (window).Hostler = Object.assign(asked, { open, close });
function begin() {
  document.body.append(root);
  let wasOpen = false;
  try {
    wasOpen = sessionStorage.getItem(`${PLACE} open`) === "true";
  } catch {
    // forbidden
  }
  if (wasOpen || chat.outbox.length) chat.start();
  if (wasOpen) {
    panel.hidden = false;
    launch.setAttribute("aria-expanded", "true");
    launch.setAttribute("aria-label", t("close"));
    draw();
  }
  dispatchEvent(new CustomEvent("hostler:ready"));
}
if (document.body) begin();
else addEventListener("DOMContentLoaded", begin, { once: true });
