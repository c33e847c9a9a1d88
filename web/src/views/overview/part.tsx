// The frame and the report that the parts of the overview share.

import type { ComponentChildren } from "preact";
import type { Changes } from "../../model/address";
import { useDeviceAnswer } from "../../model/use_answer";
import { Link } from "../../render/link";

/** A panel with a link to its view. */
export function Part({
  title,
  to,
  more,
  children,
}: {
  title: string;
  to: Changes;
  more: string;
  children: ComponentChildren;
}) {
  return (
    <section class="panel overview-part" aria-label={title}>
      <h3>
        {title} <Link to={to}>{more}</Link>
      </h3>
      {children}
    </section>
  );
}

/** The report of the peak in a grouping. */
export function usePeakReport(by: string) {
  return useDeviceAnswer("report", () => ({ by, at: "peak" as const }));
}
