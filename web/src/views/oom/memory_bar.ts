// The parts of the memory bar at the failed allocation, from left to right. No drawing.

import type { OomReport } from "../../api/types.gen";

export type PartName = "allocated" | "pending" | "usable" | "other" | "room" | "outside";

/** A part of the bar, in bytes from its left end. */
export interface Part {
  readonly name: PartName;
  readonly from: number;
  readonly to: number;
}

export interface MemoryBar {
  readonly parts: readonly Part[];
  /** The failed request, or torch's larger request to the driver. */
  readonly request: { readonly from: number; readonly to: number };
  readonly limit: number | null;
  /** The bytes at the right end. */
  readonly end: number;
}

/**
 * torch's memory begins at the left, memory outside torch ends at the right. The request begins
 * where reserved memory ends, because the driver would have to provide it. With a limit of the
 * program, the bar ends at the limit instead of the device's memory.
 */
export function memoryBar(report: OomReport): MemoryBar {
  const reserved = report.reserved ?? report.allocated;
  const parts: Part[] = [];
  let at = 0;
  const add = (name: PartName, bytes: number) => {
    if (bytes <= 0) return;
    parts.push({ name, from: at, to: at + bytes });
    at += bytes;
  };
  add("allocated", report.allocated);
  add("pending", report.pending_free);
  add("usable", report.usable_free);
  add("other", report.free - report.usable_free);
  at = Math.max(at, reserved);
  const total = report.is_own_limit ? null : report.total;
  const outside = total === null ? 0 : (report.outside_torch ?? 0);
  add("room", report.unreserved ?? 0);
  if (total !== null && outside > 0) {
    const from = Math.max(at, total - outside);
    if (total > from) parts.push({ name: "outside", from, to: total });
  }
  const bytes = Math.max(report.segment ?? 0, report.at.request?.bytes ?? 0);
  const request = { from: reserved, to: reserved + bytes };
  const ends = [request.to, report.limit ?? 0, total ?? 0, at];
  return { parts, request, limit: report.limit, end: Math.max(1, ...ends) };
}
