// The interface between a view and the shell.

import type { ComponentType } from "preact";

export interface View {
  /** Its name in the address. */
  readonly name: string;
  /** Its name on the tab. */
  readonly title: string;
  /** The key that opens it. */
  readonly key: string;
  /** The hint of the tab: what the view answers. */
  readonly hint: string;
  readonly component: ComponentType;
  /** The groupings that the bar offers while it is shown (`by` in the address). */
  readonly groupings?: readonly string[];
  /** Whether it has anything to show; reads signals. True by default. */
  readonly isThere?: () => boolean;
}
