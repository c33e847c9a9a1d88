// Keyboard shortcuts: their handlers and their texts for the help. A key is a value of
// `KeyboardEvent.key`, with `Shift+` before named keys (`Shift+ArrowLeft`).

import { signal } from "@preact/signals";

export interface Key {
  /** The keys that run the action. */
  readonly keys: readonly string[];
  /** The description for the help. */
  readonly hint: string;
  readonly run: () => void;
}

export interface KeyGroup {
  /** The heading in the help: `Everywhere`, `Timeline`. */
  readonly title: string;
  readonly keys: readonly Key[];
}

/** The active groups, in the order of registration. */
export const keyGroups = signal<readonly KeyGroup[]>([]);

/** Registers a group; returns a function that removes it. */
export function listen(group: KeyGroup): () => void {
  keyGroups.value = [...keyGroups.peek(), group];
  return () => {
    keyGroups.value = keyGroups.peek().filter((other) => other !== group);
  };
}

/** Runs the action of an event; the last registered group is tried first. */
export function press(event: KeyboardEvent): boolean {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return false;
  if (isTyping(event.target, event.key)) return false;
  // Leave the text box, so that keys are shortcuts again.
  if (event.key === "Escape" && event.target instanceof HTMLInputElement) event.target.blur();
  const name = event.shiftKey && event.key.length > 1 ? `Shift+${event.key}` : event.key;
  for (const group of [...keyGroups.peek()].reverse()) {
    const key = group.keys.find((one) => one.keys.includes(name));
    if (key) {
      event.preventDefault();
      key.run();
      return true;
    }
  }
  return false;
}

/** Whether the focused element handles this key itself. */
function isTyping(target: EventTarget | null, key: string): boolean {
  if (!(target instanceof HTMLElement)) return false;
  if (target.isContentEditable || target.matches("input:not([type=checkbox]), textarea, select")) {
    return key !== "Escape";
  }
  const isMoving =
    key.startsWith("Arrow") || key === "Enter" || key === " " || key === "Home" || key === "End";
  return isMoving && target.closest("[role=tablist], [role=grid], [data-own-keys]") !== null;
}

const SHOWN: Readonly<Record<string, string>> = {
  ArrowLeft: "←",
  ArrowRight: "→",
  ArrowUp: "↑",
  ArrowDown: "↓",
  Escape: "Esc",
};

/** A key as the help shows it. */
export function shownKey(key: string): string {
  const [, shift, name] = /^(Shift\+)?(.*)$/.exec(key) ?? ["", "", key];
  return (shift ? "⇧ " : "") + (SHOWN[name ?? key] ?? name ?? key);
}
