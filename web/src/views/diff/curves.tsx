// Both recordings over time on one axis: by step where both have steps. A click on a curve chooses the time of its side.

import { useRef, useState } from "preact/hooks";
import type { DiffCurves, DiffPoint } from "../../api/types.gen";
import { formatBytes } from "../../base/bytes";
import type { Inks } from "../../base/colours";
import { formatSeconds } from "../../base/seconds";
import { timeTicks } from "../../base/ticks";
import { go, secondsField } from "../../model/address";
import { source } from "../../model/recording";
import {
  type Box,
  BYTE_AXIS_WIDTH,
  drawByteAxis,
  drawTimeAxis,
  TIME_AXIS_HEIGHT,
} from "../../render/axes";
import type { Pen, Size } from "../../render/pen";
import { Picture } from "../../render/picture";
import { hideTip, showTip, TipRows } from "../../render/tooltip";
import { pointAt, type Scales, stepped } from "./points";
import type { SideName, Sides } from "./sides";

const NAMES: Readonly<Record<SideName, string>> = { a: "from", b: "to" };

export function Curves({ answer, both }: { answer: DiffCurves; both: Sides }) {
  const size = useRef<Size>({ width: 1, height: 1 });
  // The side that the keys move.
  const [active, setActive] = useState<SideName>("b");
  const choose = (side: SideName, point: DiffPoint | null, replaces: boolean) => {
    // A saved page has only the peaks.
    if (!point || source().isStored) return;
    go({ [`at_${side}`]: secondsField(point.seconds) }, { replaces });
  };
  const find = (event: MouseEvent) =>
    pointAt(answer, scalesOf(boxOf(size.current), answer), event.offsetX, event.offsetY);
  const onKeyDown = (event: KeyboardEvent) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (event.key === "ArrowUp" || event.key === "ArrowDown") setActive(active === "a" ? "b" : "a");
    else if (by !== undefined) {
      const { points, at } = answer.curves[active];
      choose(active, stepped(points, at.seconds, event.shiftKey ? by * 20 : by), true);
    } else return;
    event.preventDefault();
  };
  return (
    <Picture
      name="diff-curves"
      label={description(answer, both, active)}
      draw={(pen, now, inks) => {
        size.current = now;
        const steps = Math.max(both.a.card.summary.steps, both.b.card.summary.steps);
        drawCurves(pen, now, inks, answer, steps);
      }}
      on={{
        onKeyDown,
        onClick: (event) => {
          const found = find(event);
          if (found) choose(found.side, found.point, false);
        },
        onPointerMove: (event) => {
          const found = find(event);
          if (!found) return hideTip();
          const { side, point } = found;
          showTip(
            event.clientX,
            event.clientY,
            <>
              <p class="title">
                {NAMES[side]} {both[side].card.name}
              </p>
              <TipRows
                rows={[
                  [
                    answer.axis === "steps" ? "step" : "time",
                    positionText(point, answer, both[side].card.summary.steps),
                  ],
                  ["allocated", formatBytes(point.allocated)],
                ]}
              />
              {!source().isStored && <p class="quiet">Click to compare this time</p>}
            </>,
          );
        },
        onPointerLeave: hideTip,
      }}
    />
  );
}

function positionText(point: DiffPoint, answer: DiffCurves, steps: number): string {
  const seconds = formatSeconds(point.seconds);
  if (answer.axis !== "steps") return seconds;
  const step = Math.floor(point.position);
  return `${step < steps ? step : "after the last"}, at ${seconds}`;
}

/** A description for screen readers. */
function description(answer: DiffCurves, both: Sides, active: SideName): string {
  const side = (name: SideName) => {
    const { peak, at, device } = answer.curves[name];
    return (
      `${NAMES[name]} ${both[name].card.name}, ${device}: peak ${formatBytes(peak.allocated)}, ` +
      `compared at ${formatSeconds(at.seconds)} with ${formatBytes(at.allocated)}`
    );
  };
  const axis = answer.axis === "steps" ? "step" : "time since the start";
  return (
    `Allocated bytes of both recordings by ${axis}; ${side("a")}; ${side("b")}. ` +
    `Left and right move the time of “${NAMES[active]}”, up and down choose the other curve.`
  );
}

function boxOf(size: Size): Box {
  const [x, y] = [BYTE_AXIS_WIDTH, 22];
  return {
    x,
    y,
    width: Math.max(1, size.width - x - 40),
    height: Math.max(1, size.height - y - TIME_AXIS_HEIGHT),
  };
}

function scalesOf(box: Box, answer: DiffCurves): Scales {
  const [length, highest] = [answer.length || 1, highestOf(answer)];
  return {
    x: (position) => box.x + (position / length) * box.width,
    y: (bytes) => box.y + box.height * (1 - bytes / highest),
  };
}

function highestOf(answer: DiffCurves): number {
  return Math.max(1, answer.highest) * 1.06;
}

/**
 * Draws both curves. Events after the last of `steps`, such as the end of a program, belong to no
 * step.
 */
export function drawCurves(
  pen: Pen,
  size: Size,
  inks: Inks,
  answer: DiffCurves,
  steps: number,
): void {
  const box = boxOf(size);
  const scales = scalesOf(box, answer);
  drawByteAxis(pen, box, highestOf(answer), inks);
  if (answer.axis === "steps") drawStepAxis(pen, box, answer.length, steps, inks);
  else drawTimeAxis(pen, box, 0, answer.length, inks);
  const colours = { a: inks.quiet, b: inks.accent };
  let x = box.x;
  for (const side of ["a", "b"] as const) {
    const { points } = answer.curves[side];
    const style = { stroke: colours[side], width: 1.5, dash: side === "a" ? [5, 3] : [] };
    pen.line(outline(points, scales), style);
    pen.line([x, 11, x + 22, 11], style);
    pen.text(x + 27, 15, NAMES[side], { fill: inks.ink, size: 11.5 });
    x += 74;
  }
  for (const side of ["a", "b"] as const) {
    drawTime(pen, box, scales, answer.curves[side].at, colours[side], inks.panel);
  }
}

function outline(points: readonly DiffPoint[], { x, y }: Scales): number[] {
  const line: number[] = [];
  for (const point of points) {
    const before = line.at(-1);
    if (before !== undefined) line.push(x(point.position), before);
    line.push(x(point.position), y(point.allocated));
  }
  return line;
}

/** Draws a hollow mark, which does not cover the curve. */
function drawTime(
  pen: Pen,
  box: Box,
  { x, y }: Scales,
  at: DiffPoint,
  stroke: string,
  panel: string,
): void {
  const [left, top] = [x(at.position), y(at.allocated)];
  pen.line([left, top + 5, left, box.y + box.height], { stroke, dash: [2, 3] });
  const diamond = [left, top - 6, left + 6, top, left, top + 6, left - 6, top];
  pen.area(diamond, panel);
  pen.line([...diamond, left, top - 6], { stroke, width: 2 });
}

function drawStepAxis(pen: Pen, box: Box, length: number, steps: number, inks: Inks): void {
  const ticks = timeTicks(0, length, Math.max(2, Math.floor(box.width / 72)));
  const every = Math.max(1, Math.ceil(ticks.step));
  for (let step = 0; step < length; step += every) {
    const x = box.x + (step / length) * box.width;
    const line = Math.round(x) + 0.5;
    pen.line([line, box.y, line, box.y + box.height + 4], { stroke: inks.grid });
    if (step < steps)
      pen.text(x + 3, box.y + box.height + 17, `step ${step}`, { fill: inks.quiet });
  }
}
