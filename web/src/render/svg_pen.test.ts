// @vitest-environment happy-dom
import { expect, it } from "vitest";
import { SvgPen } from "./svg_pen";

it("a name from a stranger cannot become markup", () => {
  const pen = new SvgPen(() => 10);
  pen.text(1, 2, `<script>alert("1")</script>\u0000`, { fill: '"/><b' });
  const picture = pen.document(10, 10, "<title>");
  for (const part of ["<script", "<b", "\u0000"]) expect(picture).not.toContain(part);
  expect(
    new DOMParser().parseFromString(picture, "image/svg+xml").querySelectorAll("*").length,
  ).toBe(3);
});

it("strokes become shapes", () => {
  const pen = new SvgPen(() => 10);
  pen.clipped(0, 0, 5, 5, () => pen.line([0, 0, 1.23456, 2], { stroke: "#123456", dash: [2, 1] }));
  pen.area([0, 0, 1, 0, 1, 1], "#abcdef");
  expect(pen.document(10, 20, "t")).toContain(
    '<polyline points="0 0 1.23 2" fill="none" stroke="#123456" stroke-width="1" stroke-dasharray="2 1"/>',
  );
});
