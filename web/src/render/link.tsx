// A link to another view of the page.

import type { ComponentChildren } from "preact";
import { type Changes, go, hashAfter } from "../model/address";

/** Its address is a whole one, so it also opens in another tab. */
export function Link({ to, children }: { to: Changes; children: ComponentChildren }) {
  return (
    <a
      href={hashAfter(to)}
      onClick={(event) => {
        if (event.ctrlKey || event.metaKey || event.shiftKey) return;
        event.preventDefault();
        go(to);
      }}
    >
      {children}
    </a>
  );
}
