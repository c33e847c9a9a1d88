import { describe, expect, it } from "vitest";
import { channels, contrast, DARK, groupColour, type Inks, LIGHT, readableOn } from "./colours";

describe.each([
  ["light", LIGHT],
  ["dark", DARK],
])("%s", (_name, inks) => {
  it("has text that can be read on every ground", () => {
    for (const ground of [inks.ground, inks.panel, inks.raised]) {
      for (const ink of [inks.ink, inks.quiet])
        expect(contrast(ink, ground)).toBeGreaterThanOrEqual(4.5);
    }
    expect(contrast(inks.alarm, inks.alarmGround)).toBeGreaterThanOrEqual(4.5);
    expect(contrast(inks.accent, inks.panel)).toBeGreaterThanOrEqual(4.5);
    expect(contrast(inks.onAccent, inks.accent)).toBeGreaterThanOrEqual(4.5);
    expect(contrast(inks.ink, inks.chosen)).toBeGreaterThanOrEqual(4.5);
    expect(contrast(inks.ink, inks.bar)).toBeGreaterThanOrEqual(4.5);
    for (const change of [inks.grew, inks.shrank])
      expect(contrast(change, inks.panel)).toBeGreaterThanOrEqual(4.5);
  });

  it("has lines that can be seen on the panel", () => {
    const { allocated, active, reserved, capacity, limit, fill, freeFill } = inks;
    for (const line of [allocated, active, reserved, capacity, limit, fill, freeFill]) {
      expect(contrast(line, inks.panel)).toBeGreaterThanOrEqual(3);
    }
  });

  it("has lines of the whole GPU and of the limit that every eye tells apart", () => {
    for (const eye of Object.keys(EYES) as (keyof typeof EYES)[])
      expect(distance(inks.capacity, inks.limit, eye), eye).toBeGreaterThanOrEqual(20);
    // Their labels are text.
    for (const line of [inks.capacity, inks.limit])
      expect(contrast(line, inks.panel)).toBeGreaterThanOrEqual(4.5);
  });

  it("has phases that can be distinguished and written on", () => {
    const { forward, backward, optimizer } = inks.phases;
    for (const grey of Object.values(inks.phases))
      expect(contrast(readableOn(grey), grey)).toBeGreaterThanOrEqual(4.5);
    expect(contrast(forward, backward)).toBeGreaterThanOrEqual(1.6);
    expect(contrast(backward, optimizer)).toBeGreaterThanOrEqual(1.6);
  });

  it("has fills that can be seen on the panel", () => {
    for (const fill of [...inks.groups, inks.rest, inks.before, inks.grew, inks.shrank])
      expect(contrast(fill, inks.panel), fill).toBeGreaterThanOrEqual(3);
  });

  it("has groups that can be written on, and neighbours that differ in lightness", () => {
    for (const colour of inks.groups)
      expect(contrast(readableOn(colour), colour)).toBeGreaterThanOrEqual(4.5);
    inks.groups.slice(1).forEach((colour, at) => {
      expect(contrast(colour, inks.groups[at] ?? "")).toBeGreaterThanOrEqual(1.6);
    });
  });

  it("has groups that can be distinguished", () => {
    expect(nearest(inks, "usual")).toBeGreaterThanOrEqual(16);
  });

  it.each(["protan", "deutan", "tritan"] as const)(
    "has groups that a %s eye tells apart",
    (eye) => {
      expect(nearest(inks, eye)).toBeGreaterThanOrEqual(10);
    },
  );
});

it("a category has its colour wherever it comes", () => {
  expect(groupColour(LIGHT, "gradient", 0)).toBe(groupColour(LIGHT, "gradient", 9));
  expect(groupColour(LIGHT, "other", 3)).toBe(LIGHT.rest);
  expect(groupColour(LIGHT, "unknown", 0)).toBe(LIGHT.rest);
  expect(groupColour(LIGHT, "constructor", 2)).toBe(LIGHT.groups[2]);
  const all = ["(no module)", ...LIGHT.groups.map((_, index) => `layer ${index}`)];
  expect(new Set(all.map((name, index) => groupColour(LIGHT, name, index))).size).toBe(all.length);
});

/** How an eye without one kind of cones sees linear light (Viénot, Brettel and Mollon; Machado for the third). */
const EYES = {
  usual: [1, 0, 0, 0, 1, 0, 0, 0, 1],
  protan: [
    0.152286, 1.052583, -0.204868, 0.114503, 0.786281, 0.099216, -0.003882, -0.048116, 1.051998,
  ],
  deutan: [
    0.367322, 0.860646, -0.227968, 0.280085, 0.672501, 0.047413, -0.01182, 0.04294, 0.968881,
  ],
  tritan: [
    1.255528, -0.076749, -0.178779, -0.078411, 0.930809, 0.147602, 0.004733, 0.691367, 0.3039,
  ],
} as const;

/** The smallest distance between two groups. */
function nearest(inks: Inks, eye: keyof typeof EYES): number {
  const pairs = inks.groups.flatMap((one, at) =>
    inks.groups.slice(at + 1).map((other) => distance(one, other, eye)),
  );
  return Math.min(...pairs);
}

/** How far two colours are from each other (CIE76). */
function distance(one: string, other: string, eye: keyof typeof EYES): number {
  const [from, to] = [lab(one, EYES[eye]), lab(other, EYES[eye])];
  return Math.hypot(...from.map((value, part) => value - (to[part] ?? 0)));
}

function lab(colour: string, eye: readonly number[]): number[] {
  const linear = channels(colour).map((value) =>
    value / 255 <= 0.04045 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4,
  );
  const seen = times(eye, linear).map((value) => Math.min(1, Math.max(0, value)));
  const [x, y, z] = times(
    [0.4124, 0.3576, 0.1805, 0.2126, 0.7152, 0.0722, 0.0193, 0.1192, 0.9505],
    seen,
  ) as [number, number, number];
  const f = (value: number) => (value > 0.008856 ? Math.cbrt(value) : 7.787 * value + 16 / 116);
  const [a, b, c] = [f(x / 0.95047), f(y), f(z / 1.08883)];
  return [116 * b - 16, 500 * (a - b), 200 * (b - c)];
}

function times(matrix: readonly number[], vector: readonly number[]): number[] {
  return [0, 3, 6].map((row) =>
    vector.reduce((sum, value, at) => sum + value * (matrix[row + at] ?? 0), 0),
  );
}
