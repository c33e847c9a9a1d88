// The same for components.

import type { ReadonlySignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import type { Answer, Path } from "../api/questions";
import { type Asked, follow, type Question } from "./answer";

/**
 * The answer to a question that is read from signals. Reading `.value` of the result in a component shows it again
 * when it changes.
 *
 *     const report = useAnswer(() => subject.value && { path: "report", query: { … }, revision: subject.value.revision });
 */
export function useAnswer<P extends Path>(
  question: () => Question<P> | null,
  delayMillis = 0,
): ReadonlySignal<Asked<Answer<P>>> {
  const followed = useMemo(() => follow(question, delayMillis), []);
  useEffect(() => followed.dispose, [followed]);
  return followed.asked;
}
