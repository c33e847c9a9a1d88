// Every picture is drawn as SVG: names from a recording stay text, and what is shown is in it.

import { describe, expect, it } from "vitest";
import type { Segments } from "../api/types.gen";
import { plainAxis } from "../base/axis";
import { LIGHT } from "../base/colours";
import { SvgPen } from "../render/svg_pen";
import { rankBars } from "./ranks/bars";
import { drawRanks } from "./ranks/draw";
import { drawSegments } from "./segments/draw";
import { segmentRows } from "./segments/rows";
import { stepBars } from "./steps/bars";
import { drawSteps } from "./steps/draw";
import { drawTensors, type Tensor } from "./tensors/draw";
import { lanes } from "./tensors/lanes";

const HOSTILE = "</text><script>gone</script>";
const SIZE = { width: 1000, height: 400 };

function svg(draw: (pen: SvgPen) => void): string {
  const pen = new SvgPen((text, size = 12) => text.length * size * 0.55);
  draw(pen);
  return pen.document(SIZE.width, SIZE.height, HOSTILE);
}

function expectText(picture: string): void {
  expect(picture).not.toContain("<script");
  expect(picture).not.toContain("NaN");
}

describe("pictures as SVG", () => {
  it("has bars of steps and the suspects above them", () => {
    const phases = [{ name: HOSTILE, peak: 5 }];
    const steps = [1, 2, 3].map((number) => ({ number, peak: 8, end: 4, growth: 1, phases }));
    const picture = {
      bars: stepBars(steps, 1),
      numbers: [1, 2, 3],
      unfinished: 2,
      phases: [HOSTILE],
      chosen: 1,
    };
    const suspects = [{ since: 1, text: `${HOSTILE} gains 1 B a step` }];
    const levels = svg((pen) =>
      drawSteps(pen, SIZE, LIGHT, { ...picture, suspects, byPhase: false }),
    );
    expectText(levels);
    expect(levels).toContain("gains 1 B a step");
    expect(levels).toContain(">3, not finished</text>");
    // No bar shrank.
    expect(levels).toContain("more at the end than the step before");
    expect(levels).not.toContain(">less</text>");
    const byPhase = svg((pen) =>
      drawSteps(pen, SIZE, LIGHT, { ...picture, suspects: [], byPhase: true }),
    );
    expectText(byPhase);
    expect(byPhase).toContain("peak 5 B");
  });

  it("has ranks, their names and the median", () => {
    const ranks = [
      { peak: 4, is_outlier: false },
      { peak: 9, is_outlier: true },
    ];
    const picture = svg((pen) =>
      drawRanks(pen, SIZE, LIGHT, {
        bars: rankBars(ranks, 900),
        names: [HOSTILE, "rank 1"],
        reserved: [null, 10],
        median: 4,
        title: "allocated peak",
        chosen: 0,
      }),
    );
    expectText(picture);
    expect(picture).toContain("median 4 B");
    expect(picture).toContain("! stands out");
  });

  it("has the blocks of a segment, and hatches what is free", () => {
    const block = { state: "live", category: 0, allocation: 7, owner: 0 } as const;
    const answer = {
      categories: [HOSTILE],
      owners: [{ location: HOSTILE, name: null, blocks: 1, bytes: 6 }],
      segments: [
        {
          address: "0x10",
          bytes: 2 ** 21,
          pool: 0,
          stream: "0x0",
          kind: "small",
          blocks: [
            { ...block, offset: 0, bytes: 2 ** 20 },
            { offset: 2 ** 20, bytes: 2 ** 20, state: "free", category: null, allocation: null },
          ],
        },
      ],
    } as unknown as Segments;
    const layout = segmentRows([{ address: "0x10", bytes: 2 ** 21, group: HOSTILE }]);
    const draw = (chosen: number | null) =>
      svg((pen) =>
        drawSegments(pen, SIZE, LIGHT, {
          answer,
          layout,
          top: 0,
          pointed: null,
          chosen,
          owner: null,
        }),
      );
    expectText(draw(null));
    expect(draw(null)).toContain(" 1 MiB</text>");
    expect(draw(7).length).toBeGreaterThan(draw(null).length);
  });

  it("has lives of tensors and the phases behind them", () => {
    const tensor: Tensor = {
      id: 1,
      name: HOSTILE,
      bytes: 512,
      category: "activation",
      phase: null,
      allocated_seconds: 1,
      saved_seconds: 1.5,
      retained_until_seconds: 2,
      last_use_seconds: 2.5,
      freed_seconds: 3,
    };
    const layout = lanes([{ module: HOSTILE, tensors: [tensor] }], {
      end: 4,
      gap: 0,
      sort: "time",
    });
    const bands = {
      stretches: [{ name: "forward", from: 0, to: 2 }],
      markers: [],
      steps: [],
      skipped: 0,
    };
    const window = { from: 0, to: 4 };
    const picture = svg((pen) =>
      drawTensors(pen, SIZE, LIGHT, {
        layout,
        bands,
        window,
        axis: plainAxis(4),
        top: 0,
        pointed: 1,
        chosen: null,
      }),
    );
    expectText(picture);
    expect(picture).toContain("forward");
  });
});
