// Pictures of one colour, drawn with strokes.
import { html } from "../lib/html.js";

/** @type {Record<string, string>} */
const PATHS = {
  mark: "M6 4v16M18 4v16M6 12h12",
  agents: "M5 10a3 3 0 0 1 3-3h8a3 3 0 0 1 3 3v6a3 3 0 0 1-3 3H8a3 3 0 0 1-3-3zM12 7V3M9 13h.01M15 13h.01",
  approvals: "M9 12l2 2 4-4M12 3l8 3v6c0 4.5-3.4 7.7-8 9-4.6-1.3-8-4.5-8-9V6z",
  attach: "M20 11l-8.5 8.5a5 5 0 0 1-7-7L13 4a3.4 3.4 0 0 1 4.8 4.8L9.5 17a1.7 1.7 0 0 1-2.4-2.4L15 7",
  audit: "M6 3h9l4 4v14H6zM14 3v5h5M9 13h7M9 17h7",
  chat: "M4 5h16v11H9l-5 4z",
  check: "M5 12.5l4.5 4.5L19 7.5",
  close: "M6 6l12 12M18 6L6 18",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  edit: "M4 20h4L19 9l-4-4L4 16zM13 7l4 4",
  file: "M6 3h8l4 4v14H6zM14 3v4h4",
  fork: "M6 4v5a4 4 0 0 0 4 4h4a4 4 0 0 1 4 4v3M6 13v7M3.5 17.5L6 20l2.5-2.5M15.5 17.5L18 20l2.5-2.5",
  knowledge: "M12 6c-2-1.6-4.6-2-8-2v14c3.4 0 6 .4 8 2 2-1.6 4.6-2 8-2V4c-3.4 0-6 .4-8 2zM12 6v14",
  leave: "M10 4H5v16h5M10 12h11M17 8l4 4-4 4",
  menu: "M4 6h16M4 12h16M4 18h16",
  models: "M12 3l8 4.5v9L12 21l-8-4.5v-9zM12 12l8-4.5M12 12v9M12 12L4 7.5",
  plugins: "M9 3v5M15 3v5M6 8h12v3a6 6 0 0 1-12 0zM12 17v4",
  runs: "M4 6h16M4 12h10M4 18h13",
  search: "M11 4a7 7 0 1 0 0 14 7 7 0 0 0 0-14zM16 16l4.5 4.5",
  send: "M4 12l16-8-5 16-3.5-6.5z",
  settings: "M4 7h10M18 7h2M4 17h2M10 17h10M16 5v4M8 15v4",
  sources: "M12 3v7M8.5 6.5L12 10l3.5-3.5M4 13h4l1.5 3h5L16 13h4v7H4z",
  stop: "M7 7h10v10H7z",
  trash: "M4 7h16M9 7V4h6v3M6 7l1 13h10l1-13M10 11v5M14 11v5",
  workers: "M4 4h16v6H4zM4 14h16v6H4zM8 7h.01M8 17h.01M12 7h5M12 17h5",
  usage: "M4 20V4M4 20h16M8 16v-4M12 16V8M16 16v-6",
};

/** A decoration: what it stands for is said beside it. @param {{name: string}} props */
export const Icon = ({ name }) => html`
  <svg class="icon" viewBox="0 0 24 24" aria-hidden="true" focusable="false"><path d=${PATHS[name] ?? ""} /></svg>
`;
