// Begins the console: texts, session, and the page of the address.
import { html, render } from "./lib/html.js";
import { sleep } from "./lib/api.js";
import { speak } from "./lib/i18n.js";
import { start } from "./lib/router.js";
import { begin } from "./lib/session.js";
import { dress } from "./lib/theme.js";
import { Shell, isPage } from "./components/shell.js";
import { Failure } from "./components/states.js";

const AGAIN_MS = 5000;

dress();
const root = /** @type {HTMLElement} */ (document.getElementById("console"));
let hurry = () => {};
for (;;) {
  const failed = (await Promise.allSettled([speak(), begin()])).find((one) => one.status === "rejected");
  if (!failed) break;
  render(html`<main id="main"><${Failure} error=${failed.reason} retry=${() => hurry()} /></main>`, root);
  await Promise.race([sleep(AGAIN_MS), new Promise((resolve) => (hurry = () => resolve(undefined)))]);
}
start(isPage);
render(html`<${Shell} />`, root);
