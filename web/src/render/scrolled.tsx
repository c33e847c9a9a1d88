// A picture that is higher than its box: the box scrolls, and only the visible part is drawn.

import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import type { Inks } from "../base/colours";
import type { Pen, Size } from "./pen";
import { Picture, type PictureHandlers, useSize } from "./picture";
import "./scrolled.css";

export interface ScrolledProps {
  readonly name: string;
  readonly label: string;
  /** The height of the whole picture. */
  readonly height: number;
  /** The scroll position, stored by the caller. */
  readonly top: number;
  readonly onTop: (top: number) => void;
  /** Draws the visible part; `top` of the whole is at 0. */
  readonly draw: (pen: Pen, size: Size, inks: Inks) => void;
  readonly on?: PictureHandlers;
  /** The part of the whole that must be visible: the box scrolls to it. */
  readonly reveals?: { readonly y: number; readonly height: number } | null;
  readonly children?: ComponentChildren;
}

export function ScrolledPicture(props: ScrolledProps) {
  const box = useRef<HTMLDivElement>(null);
  const { height } = useSize(box);
  const [y, high] = [props.reveals?.y, props.reveals?.height ?? 0];
  useEffect(() => {
    const element = box.current;
    if (!element || y === undefined || height === 0) return;
    const isSeen = y >= element.scrollTop && y + high <= element.scrollTop + height;
    if (!isSeen) element.scrollTop = y - height / 2;
  }, [y, high, height]);
  return (
    <section
      class="scrolled"
      ref={box}
      aria-label={props.name}
      onScroll={(event) => props.onTop(event.currentTarget.scrollTop)}
    >
      <div style={{ height: `${Math.max(height, props.height)}px` }}>
        <div class="scrolled-view" style={{ height: `${height}px` }}>
          <Picture
            name={props.name}
            label={props.label}
            draw={props.draw}
            {...(props.on ? { on: props.on } : {})}
          >
            {props.children}
          </Picture>
        </div>
      </div>
    </section>
  );
}
