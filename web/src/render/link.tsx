// A link to another view of the page.

import type { ComponentChildren } from "preact";
import { type Changes, go, hashAfter } from "../model/address";

/** A link with a complete address, so that it also opens in another tab. */
export function Link({
  to,
  hint,
  children,
}: {
  readonly to: Changes;
  /** The accessible name, if the text is not enough. */
  readonly hint?: string;
  readonly children: ComponentChildren;
}) {
  return (
    <a
      href={hashAfter(to)}
      title={hint}
      aria-label={hint}
      onClick={(event) => {
        // Do not also select the row around it.
        event.stopPropagation();
        if (event.ctrlKey || event.metaKey || event.shiftKey) return;
        event.preventDefault();
        go(to);
      }}
    >
      {children}
    </a>
  );
}
