// The theme: the system's, until the user chooses light or dark.

import { computed, effect, signal } from "@preact/signals";
import { DARK, type Inks, LIGHT } from "../base/colours";

export type Theme = "system" | "light" | "dark";

const KEPT_AS = "floodmark-theme";

export const theme = signal<Theme>("system");
const systemIsDark = signal(false);

/** The colours of the present theme. */
export const inks = computed<Inks>(() => {
  const isDark = theme.value === "system" ? systemIsDark.value : theme.value === "dark";
  return isDark ? DARK : LIGHT;
});

/** Reads the settings of the system and the user, and updates the page's CSS. */
export function followTheme(): void {
  const system = matchMedia("(prefers-color-scheme: dark)");
  systemIsDark.value = system.matches;
  system.addEventListener("change", () => {
    systemIsDark.value = system.matches;
  });
  const wanted = read();
  if (wanted === "light" || wanted === "dark") theme.value = wanted;
  effect(() => apply(inks.value, theme.value));
}

/** The next of system, light, dark. */
export function switchTheme(): void {
  const next: Record<Theme, Theme> = { system: "light", light: "dark", dark: "system" };
  theme.value = next[theme.peek()];
  write(theme.peek());
}

function apply(colours: Inks, wanted: Theme): void {
  const style = document.documentElement.style;
  for (const [name, value] of Object.entries(colours)) {
    if (typeof value === "string") style.setProperty(`--${dashed(name)}`, value);
  }
  style.setProperty("color-scheme", wanted === "system" ? "light dark" : wanted);
  document.documentElement.dataset.theme = colours.isDark ? "dark" : "light";
}

function dashed(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}

// A page that was opened from a file may have no storage.
function read(): string | null {
  try {
    return localStorage.getItem(KEPT_AS);
  } catch {
    return null;
  }
}

function write(value: Theme): void {
  try {
    localStorage.setItem(KEPT_AS, value);
  } catch {
    // Without storage, the choice lasts until the page is closed.
  }
}
