// The switch that shows frames of frameworks too: torch, installed packages, Python's library.

import { field, go } from "../model/address";

/** `program` or `all`; `frames` in the address. */
export const framesField = field("frames", "program");

/** The parameter for requests about stacks. */
export function framesQuery(): { readonly frames?: string } {
  return framesField.value === "all" ? { frames: "all" } : {};
}

export function FramesToggle() {
  return (
    <label
      class="check"
      title="Show the frames of torch, of installed packages and of Python's own library too"
    >
      <input
        type="checkbox"
        checked={framesField.value === "all"}
        onChange={(event) =>
          go({ frames: event.currentTarget.checked ? "all" : null, focus: null })
        }
      />
      All frames
    </label>
  );
}
