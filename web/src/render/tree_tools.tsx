// Above an icicle: by what it is, whether frames of frameworks are in it, and what else its view offers.

import type { ComponentChildren } from "preact";
import { field, go } from "../model/address";
import { Choices } from "./choices";
import { FramesToggle, framesQuery } from "./frames_toggle";

/** What an icicle is by; `tree` in the address. */
export const treeBy = field("tree", "stack");

/** What a question about an icicle says of it. Modules have no frames. */
export function treeQuery() {
  return treeBy.value === "module"
    ? ({ by: "module" } as const)
    : ({ by: "stack", ...framesQuery() } as const);
}

export interface TreeToolsProps {
  /** Beside stack and module. */
  readonly others?: readonly (readonly [string, string])[];
  /** Called before another one is shown. */
  readonly onChoose?: () => void;
  /** Before the choice of frames, and after it. */
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
