// A picture that is higher than its room: the box scrolls, and only what is seen is drawn.

import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import type { Inks } from "../base/colours";
import type { Pen, Size } from "./pen";
import { Picture, type PictureHandlers, useSize } from "./picture";
import "./scrolled.css";

export interface ScrolledProps {
  readonly name: string;
  readonly label: string;
  /** How high the whole picture is. */
  readonly height: number;
  /** How far it is scrolled, kept by the caller. */
  readonly top: number;
  readonly onTop: (top: number) => void;
  /** Draws the part that is seen; what lies at `top` of the whole is at 0. */
  readonly draw: (pen: Pen, size: Size, inks: Inks) => void;
  readonly on?: PictureHandlers;
  /** What must be seen, by its index in the whole: scrolled to when it is not. */
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
