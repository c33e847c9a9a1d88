// What a view is to the shell.

import type { ComponentType } from "preact";

export interface View {
  /** Its name in the address. */
  readonly name: string;
  /** Its name on the tab. */
  readonly title: string;
  /** The key that opens it. */
  readonly key: string;
  /** What it answers, in a few words: the tab's hint. */
  readonly says: string;
  readonly component: ComponentType;
  /** The groupings that the bar offers while it is shown (`by` in the address). */
  readonly groupings?: readonly string[];
  /** Whether it has anything to show; reads signals. Always, when not said. */
  readonly isThere?: () => boolean;
}
