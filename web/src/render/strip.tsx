// A small strip of the whole recording, with a window or a chosen time that can be dragged.

import { effect } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { Timeline } from "../api/types.gen";
import { axisUntil, positionOf, positionsOf, secondsAt, timesBetween } from "../base/axis";
import { groupColour } from "../base/colours";
import { formatSeconds } from "../base/seconds";
import { levelFor, tilesIn } from "../base/tiles";
import { askedAxis } from "../model/axis";
import type { Subject } from "../model/recording";
import { inks } from "../model/theme";
import { useTiles } from "../model/use_tiles";
import { BYTE_AXIS_WIDTH, drawBreaks, drawByteAxis } from "./axes";
import { blitOld, blitTiles, type Window } from "./blit";
import { penFor } from "./canvas_pen";
import { cursorHead } from "./cursor_mark";
import type { Pen } from "./pen";
import { useSize } from "./picture";
import { paintTile, styleKey } from "./tile_image";

export interface StripProps {
  readonly about: Subject;
  readonly timeline: Timeline;
  /** The shown part of the recording; the whole by default. */
  readonly span?: Window | null;
  /** The title: what a press does. */
  readonly hint?: string;
  /** The shown window, if there is one. */
  readonly window?: Window | null;
  /** The chosen time. */
  readonly cursor: number | null;
  /** Whether it has a byte axis. */
  readonly hasByteAxis?: boolean;
  /** Margins at the left and right, to align with an axis. */
  readonly left?: number;
  readonly right?: number;
  /**
   * Called for a press or a drag with its two ends; without `onWindow`, `onMoment` gets only the
   * current time.
   */
  readonly onMoment?: (seconds: number) => void;
  readonly onWindow?: (window: Window, isDone: boolean) => void;
  readonly label: string;
}

export function Strip(props: StripProps) {
  const frame = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const size = useSize(frame);
  const { about, timeline } = props;
  const tiles = useTiles(
    "timeline/tile",
    {
      trace: about.trace,
      device: about.device,
      by: timeline.by,
      axis: askedAxis(timeline.axis.by),
    },
    about.revision,
  );
  const axis = axisUntil(timeline.axis, about.seconds);
  const along: Along = {
    span: positionsOf(axis.knots, props.span ?? { from: 0, to: about.seconds }),
    window: props.window ? positionsOf(axis.knots, props.window) : null,
    cursor: props.cursor === null ? null : positionOf(axis.knots, props.cursor),
  };
  const { span } = along;
  const left = props.left ?? (props.hasByteAxis ? BYTE_AXIS_WIDTH : 0);
  const box = {
    x: left,
    // The lowest label is centred on its line.
    y: props.hasByteAxis ? 8 : 1,
    width: Math.max(1, size.width - left - (props.right ?? 0)),
    height: Math.max(1, size.height - (props.hasByteAxis ? 16 : 2)),
  };
  useEffect(() =>
    effect(() => {
      void tiles.now.arrived.value;
      const colours = inks.value;
      if (size.width === 0 || !canvas.current) return;
      const pen = penFor(canvas.current, size.width, size.height);
      if (!pen) return;
      const ratio = window.devicePixelRatio || 1;
      const level = levelFor(
        span,
        axis.length,
        box.width * ratio,
        timeline.columns,
        timeline.deepest_level,
      );
      tiles.now.want([{ level: 0, tile: 0 }, ...tilesIn(level, axis.length, span.from, span.to)]);
      const style = {
        height: Math.round(box.height * ratio),
        highest: timeline.peak.allocated * 1.04 || 1,
        colours: timeline.groups.map((group, index) => groupColour(colours, group.name, index)),
        lines: [],
        thickness: 0,
      };
      const key = styleKey(style);
      pen.rect(box.x, box.y, box.width, box.height, colours.free);
      if (props.hasByteAxis) drawByteAxis(pen, box, style.highest, colours);
      const context = pen.context as CanvasRenderingContext2D;
      const blit = {
        context,
        box,
        window: span,
        length: axis.length,
        level,
        store: tiles.now,
        key,
      };
      if (tiles.before && !tiles.now.isComplete) blitOld(blit, tiles.before);
      else blitTiles({ ...blit, paint: (tile) => paintTile(tile, style, key) });
      drawBreaks(pen, box, axis, span, colours);
      drawOver(pen, box, along, colours);
    }),
  );
  const drag = useDrag({
    box,
    along,
    title:
      props.hint ??
      (props.onWindow
        ? "Drag the window, or draw a new one"
        : `Drag to another time (0 to ${formatSeconds(about.seconds)})`),
    onMoment: (position) => props.onMoment?.(secondsAt(axis.knots, position)),
    onWindow:
      props.onWindow &&
      ((window, isDone) => props.onWindow?.(timesBetween(axis.knots, window), isDone)),
  });
  return (
    <div class="strip" ref={frame}>
      <canvas
        ref={canvas}
        role="img"
        tabIndex={0}
        data-own-keys
        aria-label={`${props.label}. Left and right move it.`}
        {...drag}
      />
    </div>
  );
}

type Box = { x: number; y: number; width: number; height: number };

/** The shown and marked parts, as positions on the axis. */
interface Along {
  readonly span: Window;
  readonly window: Window | null;
  readonly cursor: number | null;
}

function drawOver(
  pen: Pen,
  box: Box,
  { span, window, cursor }: Along,
  colours: { panel: string; accent: string; ink: string; edge: string },
): void {
  const x = (at: number) => box.x + ((at - span.from) / (span.to - span.from)) * box.width;
  if (window) {
    const from = x(window.from);
    const to = Math.max(from + 2, x(window.to));
    const veil = `${colours.panel}b8`;
    pen.rect(box.x, box.y, Math.max(0, from - box.x), box.height, veil);
    pen.rect(to, box.y, Math.max(0, box.x + box.width - to), box.height, veil);
    pen.outline(from + 0.5, box.y + 0.5, Math.max(1, to - from - 1), box.height - 1, {
      stroke: colours.accent,
      width: 1.5,
    });
  } else {
    pen.outline(box.x + 0.5, box.y + 0.5, box.width - 1, box.height - 1, { stroke: colours.edge });
  }
  if (cursor !== null) {
    const at = Math.round(x(cursor)) + 0.5;
    pen.line([at, box.y - 1, at, box.y + box.height + 1], { stroke: colours.ink, width: 1.5 });
    const { left, right } = cursorHead(at, box);
    pen.area([left, box.y - 1, right, box.y - 1, at, box.y + 6], colours.ink);
  }
}

/** The distance that a key moves, as a share of the shown part. */
const KEY_SHARES: Readonly<Record<string, number>> = {
  ArrowLeft: -0.01,
  ArrowRight: 0.01,
  PageUp: -0.1,
  PageDown: 0.1,
  Home: -1,
  End: 1,
};

/** Handles drags: of the chosen time, of the window by its middle, or of a new window. */
function useDrag(given: {
  readonly box: Box;
  readonly along: Along;
  readonly title: string;
  readonly onMoment: (position: number) => void;
  readonly onWindow: ((window: Window, isDone: boolean) => void) | undefined;
}) {
  const { box, along, onMoment, onWindow } = given;
  const { span } = along;
  const length = span.to - span.from;
  const start = useRef<{ at: number; window: Window; isInside: boolean } | null>(null);
  const at = (event: PointerEvent) => {
    const inside = event.offsetX - box.x;
    return span.from + Math.min(length, Math.max(0, (inside / box.width) * length));
  };
  const move = (event: PointerEvent, isDone: boolean) => {
    const here = at(event);
    if (!start.current) return;
    if (!onWindow) {
      onMoment(here);
      return;
    }
    const { at: began, window, isInside } = start.current;
    if (isInside) {
      const by = Math.min(span.to - window.to, Math.max(span.from - window.from, here - began));
      onWindow({ from: window.from + by, to: window.to + by }, isDone);
    } else if (Math.abs(here - began) * box.width > 3 * length) {
      onWindow({ from: Math.min(here, began), to: Math.max(here, began) }, isDone);
    }
  };
  return {
    title: given.title,
    onKeyDown: (event: KeyboardEvent) => {
      const by = KEY_SHARES[event.key];
      if (by === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      const inside = (position: number, room = 0) =>
        Math.min(span.to - room, Math.max(span.from, position + by * length));
      if (!onWindow) return onMoment(inside(along.cursor ?? span.from));
      const window = along.window ?? span;
      const from = inside(window.from, window.to - window.from);
      onWindow({ from, to: from + window.to - window.from }, true);
    },
    onPointerDown: (event: PointerEvent) => {
      if (event.button !== 0) return;
      (event.currentTarget as Element).setPointerCapture(event.pointerId);
      const window = along.window ?? span;
      const here = at(event);
      const isWhole = window.to - window.from > length * 0.999;
      start.current = {
        at: here,
        window,
        isInside: !isWhole && here >= window.from && here <= window.to,
      };
      if (!onWindow) move(event, false);
    },
    onPointerMove: (event: PointerEvent) => move(event, false),
    onPointerUp: (event: PointerEvent) => {
      move(event, true);
      start.current = null;
    },
  };
}
