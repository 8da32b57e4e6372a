// Light, dark, or what the system wishes.
import { signal } from "./html.js";

const KEPT = "hostler-theme";
export const THEMES = ["system", "light", "dark"];
export const theme = signal(localStorage.getItem(KEPT) ?? "system");

export function dress() {
  document.documentElement.dataset.theme = theme.value;
}

/** @param {string} chosen */
export function wear(chosen) {
  theme.value = chosen;
  localStorage.setItem(KEPT, chosen);
  dress();
}
