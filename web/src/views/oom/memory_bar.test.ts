import { expect, it } from "vitest";
import type { OomReport } from "../../api/types.gen";
import { memoryBar } from "./memory_bar";

const REPORT = {
  at: { request: { bytes: 30 } },
  allocated: 50,
  pending_free: 5,
  free: 20,
  usable_free: 8,
  reserved: 80,
  unreserved: 10,
  segment: 32,
  limit: 90,
  total: 100,
  outside_torch: 10,
  is_own_limit: false,
} as unknown as OomReport;

it("has torch's memory from the left, what is outside torch at the right", () => {
  const bar = memoryBar(REPORT);
  expect(bar.parts).toEqual([
    { name: "allocated", from: 0, to: 50 },
    { name: "pending", from: 50, to: 55 },
    { name: "usable", from: 55, to: 63 },
    { name: "other", from: 63, to: 75 },
    { name: "room", from: 80, to: 90 },
    { name: "outside", from: 90, to: 100 },
  ]);
  expect(bar.request).toEqual({ from: 80, to: 112 });
  expect(bar.end).toBe(112);
});

it("leaves the rest of the device out where the program set a limit", () => {
  const bar = memoryBar({ ...REPORT, is_own_limit: true, total: 9000, limit: 85, unreserved: 5 });
  expect(bar.end).toBe(112);
  expect(bar.parts.at(-1)).toEqual({ name: "room", from: 80, to: 85 });
});

it("has allocated bytes and the request where nothing else is known", () => {
  const bar = memoryBar({
    ...REPORT,
    reserved: null,
    unreserved: null,
    segment: null,
    limit: null,
    total: null,
    outside_torch: null,
    pending_free: 0,
    free: 0,
    usable_free: 0,
  });
  expect(bar.parts).toEqual([{ name: "allocated", from: 0, to: 50 }]);
  expect(bar.request).toEqual({ from: 50, to: 80 });
});
