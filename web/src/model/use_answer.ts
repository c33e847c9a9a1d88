// Answers for components.

import type { ReadonlySignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import type { Answer, Path, Query } from "../api/questions";
import { type Asked, follow, type Question } from "./answer";
import { type Subject, subject } from "./recording";

/**
 * The answer to a request that is read from signals. A component that reads `.value` is rendered
 * again when it changes.
 *
 *     const ranks = useAnswer(() => ({ path: "ranks", query: {}, revision: revision() }));
 */
export function useAnswer<P extends Path>(
  question: () => Question<P> | null,
  delayMillis = 0,
): ReadonlySignal<Asked<Answer<P>>> {
  const followed = useMemo(() => follow(question, delayMillis), []);
  useEffect(() => followed.dispose, [followed]);
  return followed.asked;
}

/** The requests about one device of a recording. */
type DevicePath = {
  [P in Path]: Query<P> extends { trace: number; device: string } ? P : never;
}[Path];

/** The parameters of such a request other than recording and device. */
type More<P extends DevicePath> = Omit<Query<P>, "trace" | "device">;

/**
 * The answer about the chosen device, or about the one that `of` returns. `more` is read from
 * signals too; null requests nothing.
 *
 *     const report = useDeviceAnswer("report", () => ({ by: by.value, at: cursor.value }));
 */
export function useDeviceAnswer<P extends DevicePath>(
  path: P,
  more: (about: Subject) => More<P> | null,
  {
    of = subject,
    delayMillis = 0,
  }: { of?: ReadonlySignal<Subject | null>; delayMillis?: number } = {},
): ReadonlySignal<Asked<Answer<P>>> {
  return useAnswer(() => {
    const about = of.value;
    const rest = about && more(about);
    if (!about || !rest) return null;
    const { trace, device, revision } = about;
    return { path, query: { trace, device, ...rest } as unknown as Query<P>, revision };
  }, delayMillis);
}
