// A link from a location to its line in the source view.

import type { ComponentChildren } from "preact";
import { type Location, parseLocation } from "../base/location";
import { Link } from "./link";

/** The address of a location in the source view. */
export function sourceOf({ file, line }: Location) {
  return { view: "source", file, line };
}

/** A text, as a link if `location` has a file and a line. */
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

/** A small link beside a location, for rows whose click has another meaning. */
export function SourceMark({ location }: { readonly location: string }) {
  const found = parseLocation(location);
  if (!found) return null;
  return (
    <span class="source-mark">
      <Link to={sourceOf(found)} hint={`Source of ${location}`}>
        ↗
      </Link>
    </span>
  );
}
