// @vitest-environment happy-dom
import { expect, it } from "vitest";
import type { TimelineTile } from "../api/types.gen";
import { paintTile } from "./tile_image";

/** A canvas keeps what is put on it; the DOM of these tests has none. */
function painted(tile: TimelineTile, lines: { of: "reserved"; colour: string }[] = []): string[] {
  let kept = new Uint8ClampedArray();
  const canvas = HTMLCanvasElement.prototype as unknown as { getContext: () => unknown };
  const before = canvas.getContext;
  canvas.getContext = () => ({
    createImageData: (width: number, height: number) => ({
      data: new Uint8ClampedArray(width * height * 4),
    }),
    putImageData: (image: { data: Uint8ClampedArray }) => {
      kept = image.data as Uint8ClampedArray<ArrayBuffer>;
    },
  });
  try {
    paintTile(tile, {
      height: 4,
      highest: 8,
      colours: ["#ff0000", "#00ff00"],
      lines,
      thickness: 1,
    });
  } finally {
    canvas.getContext = before;
  }
  const pixel = (at: number) => Array.from(kept.slice(at * 4, at * 4 + 4)).join(" ");
  return [0, 1, 2, 3].map((row) => pixel(row * 2));
}

const tile = {
  level: 0,
  tile: 0,
  from: 0,
  to: 2,
  groups: [
    [2, 0],
    [3, 0],
  ],
  allocated: [5, 0],
  active: null,
  reserved: [8, 8],
  lowest: [0, 0],
  events: [1, 1],
} as TimelineTile;

it("groups lie on one another, and a pixel that is half full is half there", () => {
  expect(painted(tile)).toEqual(["0 0 0 0", "0 255 0 128", "0 255 0 255", "255 0 0 255"]);
});

it("lines lie over the groups", () => {
  expect(painted(tile, [{ of: "reserved", colour: "#0000ff" }])[0]).toBe("0 0 255 255");
});
