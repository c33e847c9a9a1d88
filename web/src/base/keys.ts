// The keyboard: who listens to which key, and what the help says of it.
//
// A key is what `KeyboardEvent.key` says, with `Shift+` before it for the named keys (`Shift+ArrowLeft`).

import { signal } from "@preact/signals";

export interface Key {
  /** The keys that do it. */
  readonly keys: readonly string[];
  /** What happens, for the help. */
  readonly says: string;
  readonly run: () => void;
}

export interface KeyGroup {
  /** Where they work: `Everywhere`, `Timeline`. */
  readonly title: string;
  readonly keys: readonly Key[];
}

/** Those that listen now, in the order in which they came. */
export const keyGroups = signal<readonly KeyGroup[]>([]);

/** Listens until what is returned is called. */
export function listen(group: KeyGroup): () => void {
  keyGroups.value = [...keyGroups.peek(), group];
  return () => {
    keyGroups.value = keyGroups.peek().filter((other) => other !== group);
  };
}

/** Runs the action of the event; the handler that came last is called first. */
export function press(event: KeyboardEvent): boolean {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return false;
  if (isTyping(event.target, event.key)) return false;
  // Out of a box again, so that keys are keys.
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

/** Where keys have a meaning of their own, that meaning stays. */
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
