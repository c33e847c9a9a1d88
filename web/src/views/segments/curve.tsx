// Wasted memory over the whole recording, with a scrubber: a press or a drag moves the chosen time.

import { useRef } from "preact/hooks";
import type { FragmentationCurve } from "../../api/types.gen";
import { axisUntil, plainAxis, type TimeAxis } from "../../base/axis";
import { formatBytes, formatShare } from "../../base/bytes";
import { formatSeconds } from "../../base/seconds";
import { cursor, go, secondsField } from "../../model/address";
import { device, subject } from "../../model/recording";
import { useDeviceAnswer } from "../../model/use_answer";
import { useTimeline } from "../../render/moments";
import type { Size } from "../../render/pen";
import { Picture } from "../../render/picture";
import { hideTip, showTip, TipRows } from "../../render/tooltip";
import { curveTime, drawCurve } from "./curve_draw";
import { nearest } from "./curve_points";

type Point = FragmentationCurve["points"][number];

export function Curve({ seconds }: { seconds: number }) {
  const answer = useDeviceAnswer("fragmentation", () =>
    device.value?.reserved_peak === null ? null : {},
  );
  const timeline = useTimeline().value.value;
  const about = subject.value;
  const found = answer.value.value;
  if (!about || !found || found.points.length === 0) return null;
  const at = typeof cursor.value === "number" ? cursor.value : seconds;
  const axis = timeline ? axisUntil(timeline.axis, about.seconds) : plainAxis(about.seconds);
  return <Scrubber points={found.points} length={about.seconds} axis={axis} at={at} />;
}

interface ScrubberProps {
  readonly points: readonly Point[];
  /** The duration of the recording. */
  readonly length: number;
  /** The axis of the strip, so that a time is at the same position in both. */
  readonly axis: TimeAxis;
  readonly at: number;
}

function Scrubber({ points, length, axis, at }: ScrubberProps) {
  const size = useRef<Size>({ width: 1, height: 1 });
  const isDragged = useRef(false);
  const here = nearest(points, at);
  const timeOf = (x: number) =>
    Math.min(length, Math.max(0, curveTime(axis, size.current.width, x)));
  const move = (seconds: number) => go({ at: secondsField(seconds) }, { replaces: true });
  const step = (by: number) => {
    const next = points[Math.min(points.length - 1, Math.max(0, here + by))];
    if (next) move(next.seconds);
  };
  const said = sentence(points[here]);
  return (
    <div
      class="segments-curve"
      role="slider"
      tabIndex={0}
      aria-label="Time of the segments"
      aria-valuemin={0}
      aria-valuemax={length}
      aria-valuenow={at}
      aria-valuetext={`${formatSeconds(at)}: ${said}`}
      data-own-keys
      onKeyDown={(event) => {
        const by = KEYS[event.key];
        if (by === undefined) return;
        event.preventDefault();
        step(by);
      }}
    >
      <Picture
        name="fragmentation"
        label={`Wasted bytes over time; at ${formatSeconds(at)} ${said}`}
        hasNoMenu
        isPart
        draw={(pen, now, inks) => {
          size.current = now;
          drawCurve(pen, now, inks, points, axis, at);
        }}
        on={{
          onPointerDown: (event) => {
            (event.currentTarget as Element).setPointerCapture(event.pointerId);
            isDragged.current = true;
            move(timeOf(event.offsetX));
          },
          onPointerMove: (event) => {
            const time = timeOf(event.offsetX);
            if (isDragged.current) move(time);
            const point = points[nearest(points, time)];
            if (point) showTip(event.clientX, event.clientY, <Tip point={point} />);
          },
          onPointerUp: () => {
            isDragged.current = false;
          },
          onPointerLeave: hideTip,
        }}
      />
    </div>
  );
}

const KEYS: Readonly<Record<string, number>> = {
  ArrowLeft: -1,
  ArrowRight: 1,
  PageUp: 20,
  PageDown: -20,
  Home: Number.NEGATIVE_INFINITY,
  End: Number.POSITIVE_INFINITY,
};

function sentence(point: Point | undefined): string {
  if (!point) return "nothing is reserved";
  return `${formatBytes(point.free + point.rounding)} of ${formatBytes(point.reserved)} reserved are wasted`;
}

function Tip({ point }: { point: Point }) {
  const share = (bytes: number) => `${formatBytes(bytes)} ${formatShare(bytes, point.reserved)}`;
  return (
    <>
      <p class="title">{formatSeconds(point.seconds)}</p>
      <TipRows
        rows={[
          ["Reserved", formatBytes(point.reserved)],
          ["Free", share(point.free)],
          ["Unusable", share(point.unusable)],
          ["Split", share(point.split)],
          ["Rounding", share(point.rounding)],
          ["Largest free block", formatBytes(point.largest_free)],
        ]}
      />
      <p class="quiet">Drag to move the time</p>
    </>
  );
}
