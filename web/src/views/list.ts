// All views, in the order of their tabs.

import { advice } from "./advice";
import { diff } from "./diff";
import { oom } from "./oom";
import { overview } from "./overview";
import { peak } from "./peak";
import { planView } from "./plan";
import { ranks } from "./ranks";
import { segments } from "./segments";
import { sourceView } from "./source";
import { steps } from "./steps";
import { tensors } from "./tensors";
import { timelineView } from "./timeline";
import type { View } from "./view";

export const VIEWS: readonly View[] = [
  oom,
  planView,
  overview,
  timelineView,
  peak,
  segments,
  steps,
  tensors,
  sourceView,
  advice,
  diff,
  ranks,
];
