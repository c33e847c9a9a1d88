// A link to another view of the page.

import type { ComponentChildren } from "preact";
import { type Changes, go, hashAfter } from "../model/address";

/** Its address is a whole one, so it also opens in another tab. */
export function Link({
  to,
  says,
  children,
}: {
  readonly to: Changes;
  /** What it is called, where its text does not say it. */
  readonly says?: string;
  readonly children: ComponentChildren;
}) {
  return (
    <a
      href={hashAfter(to)}
      title={says}
      aria-label={says}
      onClick={(event) => {
        // A row around it is not picked.
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
