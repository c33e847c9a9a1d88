// Controls above an icicle: its grouping, the frames of frameworks, and controls of its view.

import type { ComponentChildren } from "preact";
import { field, go } from "../model/address";
import { Choices } from "./choices";
import { FramesToggle, framesQuery } from "./frames_toggle";

/** The grouping of an icicle; `tree` in the address. */
export const treeBy = field("tree", "stack");

/** The parameters of a request for an icicle. Modules have no frames. */
export function treeQuery() {
  return treeBy.value === "module"
    ? ({ by: "module" } as const)
    : ({ by: "stack", ...framesQuery() } as const);
}

export interface TreeToolsProps {
  /** Choices other than stack and module. */
  readonly others?: readonly (readonly [string, string])[];
  /** Called before the grouping changes. */
  readonly onChoose?: () => void;
  /** Content before and after the choice of frames. */
  readonly before?: ComponentChildren;
  readonly children?: ComponentChildren;
}

export function TreeTools({ others = [], onChoose, before, children }: TreeToolsProps) {
  return (
    <div class="table-tools">
      <Choices
        label="Icicle"
        all={[["stack", "By stack"], ["module", "By module"], ...others]}
        chosen={treeBy.value}
        onChoose={(choice) => {
          onChoose?.();
          go({ tree: choice === "stack" ? null : choice, focus: null });
        }}
      />
      {before}
      {treeBy.value !== "module" && <FramesToggle />}
      {children}
    </div>
  );
}
