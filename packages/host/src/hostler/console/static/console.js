// Begins the console: texts, session, and the page of the address.
import { html, render } from "./lib/html.js";
import { speak } from "./lib/i18n.js";
import { start } from "./lib/router.js";
import { begin } from "./lib/session.js";
import { dress } from "./lib/theme.js";
import { Shell, isPage } from "./components/shell.js";

dress();
start(isPage);
const root = /** @type {HTMLElement} */ (document.getElementById("console"));
await Promise.all([speak(), begin()]);
render(html`<${Shell} />`, root);
