// The available views for these recordings, and the shown one.

import { computed } from "@preact/signals";
import { traceField, viewName } from "../model/address";
import { card, failed, traces } from "../model/recording";
import { VIEWS } from "../views/list";
import type { View } from "../views/view";

export const shownViews = computed<readonly View[]>(() =>
  VIEWS.filter((view) => view.isThere?.() ?? true),
);

export const shownView = computed<View>(() => {
  const views = shownViews.value;
  const wanted = views.find((view) => view.name === viewName.value);
  const found = wanted ?? views.find((view) => view.name === firstView()) ?? views[0];
  if (!found) throw new Error("there are no views");
  return found;
});

/** The view of an address without one. */
function firstView(): string {
  const { follows, traces: all } = traces.value ?? { follows: false, traces: [] };
  if (follows) return "timeline";
  if (card.value?.has_plan) return "plan";
  if (failed.value) return "oom";
  const ranks = all.filter((one) => one.rank !== null);
  return ranks.length > 1 && traceField.value === null ? "ranks" : "overview";
}
