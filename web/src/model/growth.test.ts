// @vitest-environment happy-dom
import { expect, it } from "vitest";
import { isAtEnd } from "./growth";

it("a window stands at the end when it was put there a moment ago", () => {
  expect(isAtEnd(22.02, [20.5, 22.02, 23.7])).toBe(true);
  expect(isAtEnd(23.7, [20.5, 22.02, 23.7])).toBe(true);
  expect(isAtEnd(12, [20.5, 22.02, 23.7])).toBe(false);
});
