import { describe, expect, it } from "vitest";
import { DARK, LIGHT } from "../../base/colours";
import { SvgPen } from "../../render/svg_pen";
import { type Ceilings, drawCeilings } from "./ceilings";

const PLOT = { x: 0, y: 0, width: 260, height: 400 };

function drawn(ceilings: Ceilings, inks = LIGHT): string {
  const pen = new SvgPen((text, size = 12) => text.length * size * 0.55);
  drawCeilings(pen, PLOT, ceilings, (bytes) => 400 - bytes, inks);
  return pen.document(260, 400, "");
}

/** Top and bottom of each label, from its ground. */
function labels(picture: string): [number, number][] {
  const grounds = picture.matchAll(/<rect x="[^"]*" y="([^"]*)" width="[^"]*" height="13"/g);
  return [...grounds].map(([, y]) => [Number(y), Number(y) + 13]);
}

describe("the whole GPU and the limit", () => {
  it("are one line where they are the same number", () => {
    const picture = drawn({ capacity: 300, limit: 300 });
    expect(picture.match(/<polyline/g)).toHaveLength(1);
    expect(picture).toContain("limit, the whole GPU: 300 B");
  });

  it("differ in colour and in dashes where they are not", () => {
    for (const inks of [LIGHT, DARK]) {
      const picture = drawn({ capacity: 300, limit: 200 }, inks);
      expect(picture.match(/<polyline/g)).toHaveLength(2);
      expect(picture.match(/stroke-dasharray/g)).toHaveLength(1);
      expect(picture).toContain(`stroke="${inks.capacity}"`);
      expect(picture).toContain(`stroke="${inks.limit}"`);
    }
  });

  it("have labels that overlap neither each other nor the other line, however close they are", () => {
    for (let limit = 200; limit < 399; limit += 1) {
      for (const capacity of [limit + 1, limit + 5, limit + 40]) {
        if (capacity >= 400) continue;
        const [upper, lower] = labels(drawn({ capacity, limit })) as [number, number][];
        const [high, low] = [400 - capacity, 400 - limit];
        const crosses = (label: [number, number], y: number) => label[0] < y && y < label[1];
        expect(crosses(lower as [number, number], high), `${limit} ${capacity}`).toBe(false);
        // At the upper edge the picture has no room above: there the wider one may stand beside.
        if (high >= 17) {
          expect((upper as [number, number])[1]).toBeLessThanOrEqual(
            (lower as [number, number])[0],
          );
          expect(crosses(upper as [number, number], low)).toBe(false);
        }
      }
    }
  });

  it("are left out where they are not known", () => {
    expect(drawn({ capacity: null, limit: null })).not.toContain("<polyline");
  });
});
