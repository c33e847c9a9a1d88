import { describe, expect, it } from "vitest";
import type { Bands } from "../../api/types.gen";
import { LIGHT } from "../../base/colours";
import { SvgPen } from "../../render/svg_pen";
import { drawBands } from "./bands";
import { layout } from "./layout";

const SIZE = { width: 800, height: 300 };

function drawn(bands: Partial<Bands>): string {
  const all = { steps: [], stretches: [], markers: [], skipped: 0, ...bands };
  const pen = new SvgPen((text, size = 12) => text.length * size * 0.55);
  const at = layout(SIZE, all);
  const x = (seconds: number) => at.plot.x + (seconds / 10) * at.plot.width;
  drawBands(pen, at, all, { from: 0, to: 10 }, x, LIGHT);
  return pen.document(SIZE.width, SIZE.height, "");
}

describe("bands", () => {
  it("name the step that did not finish", () => {
    const picture = drawn({
      steps: [
        { number: 0, from: 0, to: 5, is_finished: true },
        { number: 1, from: 5, to: 10, is_finished: false },
      ],
    });
    expect(picture).toContain(">step 0</text>");
    expect(picture).toContain(">step 1, not finished</text>");
  });

  it("turn the name of a mark to the left where the right edge would cut it", () => {
    const name = "a mark with a long name";
    for (const kind of ["mark", "oom"] as const) {
      const picture = drawn({ markers: [{ seconds: 9.5, kind, name }] });
      expect(picture).toMatch(new RegExp(`text-anchor="end">${name}</text>`));
    }
    const early = drawn({ markers: [{ seconds: 5, kind: "mark", name }] });
    expect(early).toContain(`>${name}</text>`);
    expect(early).not.toContain(`text-anchor="end">${name}`);
  });
});
