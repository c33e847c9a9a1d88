import { expect, it } from "vitest";
import { parseLocation } from "./location";

it("has a file and a line, whatever follows", () => {
  const location = { file: "/home/ada/model.py", line: 118 };
  expect(parseLocation("/home/ada/model.py:118")).toEqual(location);
  expect(parseLocation("/home/ada/model.py:118 (Net.forward)")).toEqual(location);
  expect(parseLocation("/home/ada/model.py:118 (Net.forward) (backward)")).toEqual(location);
});

it("is none where there is no file", () => {
  expect(parseLocation("no Python frame: aten::mm")).toBeNull();
  expect(parseLocation("before recording")).toBeNull();
  expect(parseLocation("<frozen runpy>:88 (_run_code)")).toBeNull();
});
