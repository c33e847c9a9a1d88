// The canvas of the timeline, redrawn at most once per frame when something that it shows has
// changed.

import { effect } from "@preact/signals";
import { useCallback, useEffect, useRef } from "preact/hooks";
import type { Timeline } from "../../api/types.gen";
import { axisUntil, positionsOf } from "../../base/axis";
import { formatBytes } from "../../base/bytes";
import { begin } from "../../base/pending";
import { formatSeconds } from "../../base/seconds";
import { groupName } from "../../base/sentences";
import { wantedTiles } from "../../base/tiles";
import { go } from "../../model/address";
import { askedAxis } from "../../model/axis";
import type { Subject } from "../../model/recording";
import { inks } from "../../model/theme";
import { type Tiles, useTiles } from "../../model/use_tiles";
import { penFor } from "../../render/canvas_pen";
import { Problem } from "../../render/notices";
import type { Pen, Size } from "../../render/pen";
import { SaveMenu, useSize } from "../../render/picture";
import { requestBox } from "./failure";
import { drawLive, drawSaved, type Frame, levelOf, SAVED_HEAD, xOf, yOf } from "./frame";
import { useGestures } from "./gestures";
import { useHover } from "./hover";
import { layout } from "./layout";
import { highestInside } from "./look_up";
import { onPress } from "./press";
import {
  axis,
  bands,
  brushed,
  chosen,
  cursorSeconds,
  failure,
  fits,
  hidden,
  highest,
  highestInWindow,
  isRibbons,
  lines,
  pointed,
  selected,
  stackedBy,
  walked,
} from "./state";
import { useWalk, walkedSentence } from "./use_walk";
import { shown, shownAlong } from "./window";

export function Chart({ about, timeline }: { about: Subject; timeline: Timeline }) {
  const box = useRef<HTMLElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const size = useSize(box);
  const { trace, device, revision } = about;
  const along = { trace, device, axis: askedAxis(timeline.axis.by) };
  const stacks = useTiles("timeline/tile", { ...along, by: timeline.by }, revision);
  const ribbons = useTiles("allocations/tile", along, revision);
  const read = () => frameOf({ about, timeline, size, stacks, ribbons });
  useFrames(canvas, read);
  useHover(canvas, read);
  useFit(read);
  const latest = useRef(read);
  latest.current = read;
  const readLatest = useCallback(() => latest.current(), []);
  const walk = useWalk(readLatest);
  const gestures = useGestures(
    canvas,
    (seconds, bytes) => void onPress(read(), about, seconds, bytes),
  );
  const label = description(timeline, about);
  const title = `Memory of ${device} by ${isRibbons.value ? "allocation" : timeline.by}, peak ${formatBytes(timeline.peak.allocated)}`;
  const broken = stacks.now.error.value ?? ribbons.now.error.value;
  return (
    <figure class="picture chart" ref={box}>
      <canvas
        ref={canvas}
        role="img"
        tabIndex={0}
        aria-label={isRibbons.value ? `${label} Arrows move between allocations.` : label}
        data-level={dataLevel(timeline, size)}
        {...gestures}
        {...walk}
      />
      <SaveMenu
        drawing={{
          name: `timeline-${device}-by-${isRibbons.value ? "allocation" : timeline.by}`,
          title: label,
          size: { ...size, height: size.height + SAVED_HEAD },
          inks: inks.value,
          draw: (pen: Pen) => drawSaved(pen, read(), title),
        }}
      />
      <FailureMark size={size} />
      <WalkedWords read={readLatest} />
      {broken && <Problem error={broken} />}
    </figure>
  );
}

/**
 * The allocation chosen by the arrows, for screen readers. Reads the frame only then: it changes at
 * every pointer move.
 */
function WalkedWords({ read }: { read: () => Frame }) {
  return (
    <p class="unseen" aria-live="polite">
      {walked.value && walkedSentence(read())}
    </p>
  );
}

/** A button over the mark of the failed request, so that keys reach it too. */
function FailureMark({ size }: { size: Size }) {
  const failed = failure.value;
  const { plot } = layout(size, bands.value);
  if (!failed || !lines.value.limit || size.width === 0) return null;
  const scales = {
    x: xOf(plot, { axis: axis.value, along: shownAlong.value }),
    y: yOf(plot, { highest: highest.value }),
  };
  const { x, y, width, height } = requestBox(failed, scales);
  if (x + width < plot.x || x > plot.x + plot.width) return null;
  const hint = `Out of memory: ${formatBytes(failed.requested)} requested. Show why`;
  return (
    <button
      type="button"
      class="failure-mark"
      title={hint}
      aria-label={hint}
      style={{ left: `${x}px`, top: `${y}px`, width: `${width}px`, height: `${height}px` }}
      onClick={() => go({ view: "oom" })}
    />
  );
}

interface Given {
  readonly about: Subject;
  readonly timeline: Timeline;
  readonly size: Size;
  readonly stacks: Tiles<"timeline/tile">;
  readonly ribbons: Tiles<"allocations/tile">;
}

/** Reads everything that a frame shows; an effect around it subscribes to it. */
function frameOf(given: Given): Frame {
  const { about, timeline, size, stacks, ribbons } = given;
  void stacks.now.arrived.value;
  void ribbons.now.arrived.value;
  const now = axisUntil(timeline.axis, about.seconds);
  return {
    size,
    timeline,
    axis: now,
    along: positionsOf(now.knots, shown.value),
    stacks,
    ribbons: isRibbons.value ? ribbons : null,
    inks: inks.value,
    window: shown.value,
    seconds: about.seconds,
    bands: bands.value,
    highest: highest.value,
    hidden: hidden.value,
    lines: lines.value,
    cursor: cursorSeconds.value,
    pointed: pointed.value,
    brushed: brushed.value ?? selected.value,
    chosen: chosen.value,
    failure: failure.value,
    walked: walked.value?.id ?? null,
  };
}

function useFrames(
  canvas: { readonly current: HTMLCanvasElement | null },
  read: () => Frame,
): void {
  const latest = useRef(read);
  latest.current = read;
  const plan = useRef<() => void>(() => {});
  useEffect(() => {
    let frame = 0;
    let end = () => {};
    plan.current = () => {
      if (frame !== 0) return;
      end = begin();
      frame = requestAnimationFrame(() => {
        frame = 0;
        const isDone = drawNow(canvas.current, latest.current());
        end();
        // A missing tile requests a frame when it arrives; an unpainted one needs another frame
        // now.
        if (!isDone) plan.current();
      });
    };
    return () => {
      cancelAnimationFrame(frame);
      end();
      plan.current = () => {};
    };
  }, [canvas]);
  useEffect(() =>
    effect(() => {
      const now = latest.current();
      askForTiles(now);
      plan.current();
    }),
  );
}

/** Fits the height to the window, but not while it moves: every frame would repaint all tiles. */
function useFit(read: () => Frame): void {
  const latest = useRef(read);
  latest.current = read;
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const stop = effect(() => {
      if (!fits.value) return;
      const frame = latest.current();
      clearTimeout(timer);
      timer = setTimeout(() => {
        const { plot } = layout(frame.size, frame.bands);
        const kinds = (["allocated", "active", "reserved"] as const).filter(
          (kind) => kind === "allocated" || (frame.lines[kind] && !frame.ribbons),
        );
        highestInWindow.value = highestInside(
          frame.stacks.now,
          levelOf(frame, plot.width),
          frame.axis.length,
          frame.along,
          kinds,
        );
      }, REST_MILLIS);
    });
    return () => {
      clearTimeout(timer);
      stop();
    };
  }, []);
}

/** How long a window must not move to count as resting. */
const REST_MILLIS = 200;

function askForTiles(frame: Frame): void {
  const { plot } = layout(frame.size, frame.bands);
  if (frame.size.width === 0) return;
  const wanted = wantedTiles(
    levelOf(frame, plot.width),
    frame.axis.length,
    frame.along.from,
    frame.along.to,
  );
  frame.stacks.now.want(wanted);
  frame.ribbons?.now.want(wanted);
}

function drawNow(canvas: HTMLCanvasElement | null, frame: Frame): boolean {
  const { width, height } = frame.size;
  const pen = canvas && width > 0 ? penFor(canvas, width, height) : null;
  return pen ? drawLive(pen, frame) : true;
}

function dataLevel(timeline: Timeline, size: Size): number {
  const { plot } = layout(size, bands.value);
  return levelOf({ along: shownAlong.value, axis: axis.value, timeline }, plot.width);
}

const SPREAD = { time: "", events: ", all events equally wide", steps: ", all steps equally wide" };

/** A description for screen readers. */
function description(timeline: Timeline, about: Subject): string {
  const { from, to } = shown.value;
  const largest = timeline.groups
    .slice(0, 5)
    .map((group) => `${groupName(timeline.by, group.name)} up to ${formatBytes(group.peak)}`);
  return (
    `Memory of ${about.device} by ${isRibbons.value ? "allocation" : stackedBy.value}, ` +
    `from ${formatSeconds(from)} to ${formatSeconds(to)} of ${formatSeconds(about.seconds)}${SPREAD[timeline.axis.by]}. ` +
    `Peak: ${formatBytes(timeline.peak.allocated)} at ${formatSeconds(timeline.peak.seconds)}. ` +
    `Largest: ${largest.join(", ")}.`
  );
}
