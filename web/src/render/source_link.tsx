// A location that leads to its line in the view of the source.

import type { ComponentChildren } from "preact";
import { type Location, parseLocation } from "../base/location";
import { Link } from "./link";

/** Where a location leads to. */
export function sourceOf({ file, line }: Location) {
  return { view: "source", file, line };
}

/** Text that is a link where `location` has a file and a line. */
export function SourceLink({
  location,
  children,
}: {
  readonly location: string;
  readonly children: ComponentChildren;
}) {
  const found = parseLocation(location);
  return found ? <Link to={sourceOf(found)}>{children}</Link> : <span>{children}</span>;
}

/** A small link beside a location, where a click on the row does something else. */
export function SourceMark({ location }: { readonly location: string }) {
  const found = parseLocation(location);
  if (!found) return null;
  return (
    <span class="source-mark">
      <Link to={sourceOf(found)} says={`Source of ${location}`}>
        ↗
      </Link>
    </span>
  );
}
