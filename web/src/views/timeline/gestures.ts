// Wheel, drag and click on the picture.

import type { RefObject } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { positionOf, secondsAt, timesBetween } from "../../base/axis";
import { go } from "../../model/address";
import { type Box, toPixel } from "../../render/axes";
import type { Window } from "../../render/blit";
import { bandAt } from "./bands";
import { layout } from "./layout";
import { axis, bands, brushed, highest, pointed, select } from "./state";
import { goTo, moveAlong, pan, shownAlong, zoom } from "./window";

/** Movements below this many pixels are clicks. */
const LEAST_DRAG = 4;
/** The horizontal reach of the name of a failed allocation. */
const MARK_REACH = 60;

interface Drag {
  readonly x: number;
  /** The start of the drag and the window at that time, in positions on the axis. */
  readonly at: number;
  readonly from: number;
  readonly to: number;
  /** Shift selects a range, a drag on the axis zooms, any other drag moves the window. */
  readonly does: "select" | "zoom" | "move";
  isMoved: boolean;
}

/** Called for a click on the plot. */
export type OnClick = (seconds: number, bytes: number) => void;

export function useGestures(canvas: RefObject<HTMLCanvasElement | null>, onClick: OnClick) {
  const drag = useRef<Drag | null>(null);
  useEffect(() => {
    const element = canvas.current;
    if (!element) return;
    const onWheel = (event: WheelEvent) => wheel(event, element);
    // A passive wheel listener cannot keep the page from scrolling.
    element.addEventListener("wheel", onWheel, { passive: false });
    return () => element.removeEventListener("wheel", onWheel);
  }, [canvas]);
  return {
    onPointerDown: (event: PointerEvent) => {
      if (event.button !== 0) return;
      const position = pointerPosition(event);
      (event.currentTarget as Element).setPointerCapture(event.pointerId);
      const does = event.shiftKey ? "select" : position.isOnAxis ? "zoom" : "move";
      drag.current = {
        x: event.offsetX,
        at: position.along,
        ...shownAlong.peek(),
        does,
        isMoved: false,
      };
    },
    onPointerMove: (event: PointerEvent) => {
      const begun = drag.current;
      const position = pointerPosition(event);
      if (!begun) {
        const canPress = isOnOomMark(event);
        (event.currentTarget as HTMLElement).style.cursor = canPress ? "pointer" : "";
        pointed.value = position.isInPlot || position.isOnBands ? position : null;
        return;
      }
      begun.isMoved ||= Math.abs(event.offsetX - begun.x) >= LEAST_DRAG;
      if (begun.isMoved) follow(begun, event, position.along);
    },
    onPointerUp: (event: PointerEvent) => {
      const begun = drag.current;
      drag.current = null;
      if (!begun) return;
      const range = brushed.peek();
      brushed.value = null;
      if (range && begun.does === "select") select(range);
      else if (range) goTo(range);
      else if (begun.isMoved) return;
      else if (isOnOomMark(event)) openReason();
      else clicked(event, onClick);
    },
    onPointerCancel: () => {
      drag.current = null;
      brushed.value = null;
    },
    onPointerLeave: () => {
      pointed.value = null;
    },
    onDblClick: () => goTo(null),
  };
}

function follow(drag: Drag, event: PointerEvent, along: number): void {
  pointed.value = null;
  if (drag.does !== "move") {
    const { from, to } = shownAlong.peek();
    const end = Math.min(to, Math.max(from, along));
    brushed.value = timesBetween(axis.peek().knots, {
      from: Math.min(drag.at, end),
      to: Math.max(drag.at, end),
    });
    return;
  }
  const { plot } = layoutOf(event.currentTarget as HTMLElement);
  const by = ((drag.x - event.offsetX) / plot.width) * (drag.to - drag.from);
  moveAlong({ from: drag.from + by, to: drag.to + by });
}

function clicked(event: PointerEvent, onClick: OnClick): void {
  const position = pointerPosition(event);
  pointed.value = null;
  const band = position.isOnBands && bandUnder(event, position.seconds);
  if (band) goTo(band);
  else if (position.isInPlot) onClick(position.seconds, position.bytes);
}

/** Opens the view of the failed allocation. */
function openReason(): void {
  pointed.value = null;
  go({ view: "oom" });
}

/** Whether the pointer is on the name of a failed allocation, in the row of marks. */
function isOnOomMark(event: MouseEvent): boolean {
  const { marks } = layoutOf(event.currentTarget as HTMLElement);
  if (event.offsetY < marks.y || event.offsetY >= marks.y + marks.height) return false;
  const scale = { ...shownAlong.peek(), start: marks.x, length: marks.width };
  const { knots } = axis.peek();
  const failed = bands.peek()?.markers.filter((marker) => marker.kind === "oom") ?? [];
  return failed.some(
    (marker) =>
      Math.abs(event.offsetX - toPixel(scale, positionOf(knots, marker.seconds))) <= MARK_REACH,
  );
}

function wheel(event: WheelEvent, element: HTMLElement): void {
  event.preventDefault();
  pointed.value = null;
  const { plot } = layoutOf(element);
  // Convert lines and pages of a wheel to pixels.
  const unit = [1, 16, plot.height][event.deltaMode] ?? 1;
  const sideways = event.deltaX * unit || (event.shiftKey ? event.deltaY * unit : 0);
  if (Math.abs(sideways) > Math.abs(event.deltaY * unit) || event.shiftKey) {
    pan(sideways / plot.width);
    return;
  }
  const strength = Math.min(0.9, Math.max(-0.9, event.deltaY * unit * 0.0022));
  zoom(Math.exp(strength), pointerPosition(event).seconds);
}

/** The pointer's position in the timeline's units. */
interface PointerPosition {
  /** The position on the axis, and its time. */
  readonly along: number;
  readonly seconds: number;
  readonly bytes: number;
  readonly isInPlot: boolean;
  readonly isOnAxis: boolean;
  readonly isOnBands: boolean;
}

/** The step or phase under the pointer. */
function bandUnder(event: MouseEvent, seconds: number): Window | null {
  const known = bands.peek();
  const at = layoutOf(event.currentTarget as HTMLElement);
  const isIn = (box: Box) => event.offsetY >= box.y && event.offsetY < box.y + box.height;
  if (known && isIn(at.steps)) return bandAt(known.steps, seconds);
  if (known && isIn(at.phases)) return bandAt(known.stretches, seconds);
  return null;
}

function pointerPosition(event: MouseEvent): PointerPosition {
  const { plot } = layoutOf(event.currentTarget as HTMLElement);
  const { from, to } = shownAlong.peek();
  const across = Math.min(1, Math.max(0, (event.offsetX - plot.x) / plot.width));
  const up = 1 - (event.offsetY - plot.y) / plot.height;
  const isBeside = event.offsetX < plot.x || event.offsetX > plot.x + plot.width;
  const along = from + across * (to - from);
  return {
    along,
    seconds: secondsAt(axis.peek().knots, along),
    bytes: up * highest.peek(),
    isInPlot: !isBeside && up >= 0 && up <= 1,
    isOnAxis: up < 0,
    isOnBands: !isBeside && up > 1,
  };
}

function layoutOf(element: HTMLElement) {
  return layout({ width: element.clientWidth, height: element.clientHeight }, bands.peek());
}
