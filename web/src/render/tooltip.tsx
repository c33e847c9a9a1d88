// One small card that follows the pointer.

import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";

interface Tip {
  readonly x: number;
  readonly y: number;
  readonly content: ComponentChildren;
}

const tip = signal<Tip | null>(null);

/** Shows a card beside a point of the window. */
export function showTip(x: number, y: number, content: ComponentChildren): void {
  tip.value = { x, y, content };
}

export function hideTip(): void {
  if (tip.peek()) tip.value = null;
}

/** The card; the shell has one. */
export function Tooltip() {
  const card = useRef<HTMLDivElement>(null);
  const shown = tip.value;
  useLayoutEffect(() => {
    const element = card.current;
    if (!element || !shown) return;
    const { width, height } = element.getBoundingClientRect();
    const right = shown.x + 16;
    const x = right + width > innerWidth - 8 ? shown.x - 16 - width : right;
    const y = Math.min(shown.y + 12, innerHeight - 8 - height);
    element.style.transform = `translate(${Math.max(8, x)}px, ${Math.max(8, y)}px)`;
  });
  if (!shown) return null;
  return (
    <div class="tooltip" ref={card} aria-hidden="true">
      {shown.content}
    </div>
  );
}

/** Lines of a card: names and values. */
export function TipRows({ rows }: { rows: readonly (readonly [string, string, string?])[] }) {
  return (
    <dl class="tip-rows">
      {rows.map(([name, value, colour]) => (
        <div key={name}>
          <dt>
            {colour && <i class="swatch" style={{ background: colour }} />}
            {name}
          </dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
