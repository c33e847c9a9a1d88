// The axis of the timeline: time, events or steps.

import { computed } from "@preact/signals";
import type { AxisBy } from "../api/types.gen";
import { field } from "./address";
import { traces } from "./recording";

const AXES = ["time", "events", "steps"] as const;

/** `axis` in the address. */
const axisField = field("axis", "time");
export const axisBy = computed<AxisBy>(() => AXES.find((by) => by === axisField.value) ?? "time");

/**
 * The axis to request. While a recording grows, time is plain: idle intervals would appear and
 * vanish.
 */
export function askedAxis(by: AxisBy): AxisBy | undefined {
  return by === "time" && traces.value?.follows ? undefined : by;
}
