// All views, in the order of their tabs.

import { advice } from "./advice";
import { diff } from "./diff";
import { peak } from "./peak";
import { ranks } from "./ranks";
import { segments } from "./segments";
import { steps } from "./steps";
import { tensors } from "./tensors";
import { timelineView } from "./timeline";
import type { View } from "./view";

export const VIEWS: readonly View[] = [
  timelineView,
  peak,
  segments,
  steps,
  tensors,
  advice,
  diff,
  ranks,
];
