// The failed allocation in the picture: a mark of the request that links to the reason.

import type { OomReport } from "../../api/types.gen";
import type { Inks } from "../../base/colours";
import { failureSentence } from "../../base/sentences";
import type { Box } from "../../render/axes";
import type { Pen } from "../../render/pen";

export interface Failure {
  readonly seconds: number;
  readonly requested: number;
  /** The begin and end of the mark in bytes: the request is on top of reserved bytes. */
  readonly from: number;
  readonly to: number;
  readonly limit: number | null;
  /** The allocated bytes at the failure. */
  readonly allocated: number;
  readonly sentence: string;
}

/** Half the width of the mark, and the distance at which a press still counts, in pixels. */
const HALF_WIDTH = 5;
const SLACK = 4;

export function failureOf(report: OomReport): Failure {
  const { at, device, allocated, reserved, unreserved, limit } = report;
  const from = reserved ?? allocated;
  const requested = at.request?.bytes ?? 0;
  const free = reserved === null ? null : report.free;
  const sentence = failureSentence({ ...at, device, allocated, reserved, free, unreserved, limit });
  return { seconds: at.seconds, requested, from, to: from + requested, limit, allocated, sentence };
}

interface Scales {
  readonly x: (seconds: number) => number;
  readonly y: (bytes: number) => number;
}

export function drawRequest(pen: Pen, failure: Failure, { x, y }: Scales, inks: Inks): void {
  const left = Math.round(x(failure.seconds)) - HALF_WIDTH;
  const top = y(failure.to);
  const height = Math.max(3, y(failure.from) - top);
  pen.rect(left, top, 2 * HALF_WIDTH, height, `${inks.alarm}55`);
  pen.outline(left + 0.5, top + 0.5, 2 * HALF_WIDTH, height, { stroke: inks.alarm, width: 1.5 });
}

/** The box of the mark, a little enlarged, for a button over it. */
export function requestBox(failure: Failure, { x, y }: Scales): Box {
  const half = HALF_WIDTH + SLACK;
  const top = y(failure.to) - SLACK;
  return {
    x: x(failure.seconds) - half,
    y: top,
    width: 2 * half,
    height: y(failure.from) + SLACK - top,
  };
}
