// A canvas that follows the size of its box, has a description, and can be saved.

import type { ComponentChildren, Ref } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Inks } from "../base/colours";
import { begin } from "../base/pending";
import { inks } from "../model/theme";
import { penFor } from "./canvas_pen";
import type { Size } from "./pen";
import { copyPng, type Draw, type Drawing, download, pngOf, svgOf } from "./save";

export interface PictureProps {
  /** The name of a saved file. */
  readonly name: string;
  /** A description for screen readers; also the title of a saved picture. */
  readonly label: string;
  readonly draw: Draw;
  readonly class?: string;
  /** Whether it is part of a control that has the focus. */
  readonly isPart?: boolean;
  /** Whether its menu (`SaveMenu`) is placed elsewhere. */
  readonly hasNoMenu?: boolean;
  readonly canvasRef?: Ref<HTMLCanvasElement>;
  /** Keyboard and pointer handlers of the canvas. */
  readonly on?: PictureHandlers;
  readonly children?: ComponentChildren;
}

export interface PictureHandlers {
  readonly onKeyDown?: (event: KeyboardEvent) => void;
  readonly onBlur?: () => void;
  readonly onPointerDown?: (event: PointerEvent) => void;
  readonly onPointerMove?: (event: PointerEvent) => void;
  readonly onPointerUp?: (event: PointerEvent) => void;
  readonly onPointerLeave?: (event: PointerEvent) => void;
  readonly onClick?: (event: MouseEvent) => void;
  readonly onDblClick?: (event: MouseEvent) => void;
}

/**
 * A picture that fills its box. It is redrawn at most once per frame whenever its parent is
 * rendered.
 */
export function Picture(props: PictureProps) {
  const frame = useRef<HTMLElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const size = useSize(frame);
  const colours = inks.value;
  useDrawn(canvas, size, colours, props.draw);
  const drawing: Drawing = {
    name: props.name,
    title: props.label,
    size,
    inks: colours,
    draw: props.draw,
  };
  return (
    <figure class={`picture ${props.class ?? ""}`} ref={frame}>
      <canvas
        ref={(element) => {
          canvas.current = element;
          if (typeof props.canvasRef === "function") props.canvasRef(element);
          else if (props.canvasRef) props.canvasRef.current = element;
        }}
        role="img"
        aria-label={props.label}
        tabIndex={props.isPart ? -1 : 0}
        data-own-keys={props.on?.onKeyDown ? true : undefined}
        {...props.on}
      />
      {!props.hasNoMenu && <SaveMenu drawing={drawing} />}
      {props.children}
    </figure>
  );
}

/** The size of an element in CSS pixels, whole ones. */
export function useSize(element: { readonly current: HTMLElement | null }): Size {
  const [size, setSize] = useState<Size>({ width: 0, height: 0 });
  useLayoutEffect(() => {
    const shown = element.current;
    if (!shown) return;
    const measure = () => {
      const next = { width: Math.floor(shown.clientWidth), height: Math.floor(shown.clientHeight) };
      setSize((old) => (old.width === next.width && old.height === next.height ? old : next));
    };
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(shown);
    return () => observer.disconnect();
  }, [element]);
  return size;
}

function useDrawn(
  canvas: { readonly current: HTMLCanvasElement | null },
  size: Size,
  colours: Inks,
  draw: Draw,
): void {
  const latest = useRef(() => {});
  const planned = useRef(0);
  latest.current = () => {
    const pen = canvas.current && size.width > 0 && penFor(canvas.current, size.width, size.height);
    if (pen) draw(pen, size, colours);
  };
  useEffect(() => {
    if (planned.current !== 0) return;
    const end = begin();
    planned.current = requestAnimationFrame(() => {
      planned.current = 0;
      latest.current();
      end();
    });
  });
}

/** A menu to save or copy a picture; a function is called when the picture is needed. */
export function SaveMenu({ drawing }: { drawing: Drawing | (() => Drawing) }) {
  const menu = useRef<HTMLDetailsElement>(null);
  const close = () => menu.current?.removeAttribute("open");
  const run = (work: (now: Drawing) => Promise<void> | void) => async () => {
    close();
    await work(typeof drawing === "function" ? drawing() : drawing);
  };
  return (
    <details
      class="save-menu"
      ref={menu}
      onFocusOut={(event) => {
        if (!menu.current?.contains(event.relatedTarget as Node | null)) close();
      }}
    >
      <summary title="Save this picture" aria-label="Save this picture">
        <svg width="14" height="14" viewBox="0 0 14 14" aria-hidden="true">
          <path
            d="M7 1v8M3.500 5.500 7 9l3.500-3.500M1.500 12.500h11"
            fill="none"
            stroke="currentColor"
            stroke-width="1.4"
          />
        </svg>
      </summary>
      <div class="menu">
        <button type="button" onClick={run(copy)}>
          Copy as PNG
        </button>
        <button type="button" onClick={run(savePng)}>
          Save as PNG
        </button>
        <button type="button" onClick={run(saveSvg)}>
          Save as SVG
        </button>
      </div>
    </details>
  );
}

async function savePng(drawing: Drawing): Promise<void> {
  download(`${drawing.name}.png`, await pngOf(drawing));
}

function saveSvg(drawing: Drawing): void {
  download(`${drawing.name}.svg`, new Blob([svgOf(drawing)], { type: "image/svg+xml" }));
}

/** Copies to the clipboard, or saves a file if there is none. */
async function copy(drawing: Drawing): Promise<void> {
  if (!(await copyPng(drawing))) await savePng(drawing);
}
