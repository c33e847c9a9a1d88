import { expect, it } from "vitest";
import { cursorHead } from "./cursor_mark";

const BOX = { x: 100, width: 200 };

it("stands over its line", () => {
  expect(cursorHead(150, BOX)).toEqual({ left: 145, right: 155 });
});

it("lies inside the picture at both edges", () => {
  expect(cursorHead(300, BOX)).toEqual({ left: 290, right: 300 });
  expect(cursorHead(297, BOX)).toEqual({ left: 287, right: 297 });
  expect(cursorHead(100, BOX)).toEqual({ left: 100, right: 110 });
});
