// @vitest-environment happy-dom
import { expect, it } from "vitest";
import { standsAtEnd } from "./growth";

it("a window stands at the end when it was put there a moment ago", () => {
  expect(standsAtEnd(22.02, [20.5, 22.02, 23.7])).toBe(true);
  expect(standsAtEnd(23.7, [20.5, 22.02, 23.7])).toBe(true);
  expect(standsAtEnd(12, [20.5, 22.02, 23.7])).toBe(false);
});
