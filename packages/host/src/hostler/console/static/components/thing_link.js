// The name of a thing, as a link where there is a page for it.
import { html } from "../lib/html.js";

/** @param {{to: string | null, children?: any}} props */
export const ThingLink = ({ to, children }) => (to ? html`<a href=${to}><bdi>${children}</bdi></a>` : html`<bdi>${children}</bdi>`);
