// Which views there are for these recordings, and which is shown.

import { computed } from "@preact/signals";
import { viewName } from "../model/address";
import { VIEWS } from "../views/list";
import type { View } from "../views/view";

export const shownViews = computed<readonly View[]>(() =>
  VIEWS.filter((view) => view.isThere?.() ?? true),
);

export const shownView = computed<View>(() => {
  const views = shownViews.value;
  const found = views.find((view) => view.name === viewName.value) ?? views[0];
  if (!found) throw new Error("there are no views");
  return found;
});
