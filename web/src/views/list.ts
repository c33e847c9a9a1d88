// All views, in the order of their tabs.

import { peak } from "./peak";
import { timelineView } from "./timeline";
import type { View } from "./view";

export const VIEWS: readonly View[] = [timelineView, peak];
