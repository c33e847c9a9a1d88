// Controls for the chosen time: a strip of the whole recording, and buttons for named times.

import type { At } from "../api/questions";
import { cursor, go, namedMoment, secondsField } from "../model/address";
import { askedAxis } from "../model/axis";
import { card, source, subject } from "../model/recording";
import { useDeviceAnswer } from "../model/use_answer";
import { Problem } from "./notices";
import { Strip } from "./strip";

/** `first` is the time that a view shows if the address has none. */
export function MomentButtons({ first = "peak" }: { first?: At }) {
  const failed = card.value?.summary.failed_requests ?? 0;
  const at = namedMoment.value ?? first;
  const button = (moment: At, title: string) => (
    <button
      type="button"
      aria-pressed={at === moment}
      onClick={() => go({ at: moment === first ? null : moment })}
    >
      {title}
    </button>
  );
  return (
    <fieldset class="choices" aria-label="Moment">
      {button("peak", "Peak")}
      {failed > 0 && button("oom", "Out of memory")}
      {button("end", "End")}
    </fieldset>
  );
}

/** A note if a saved page shows another time than the requested one. */
export function Nearest({ seconds }: { seconds: number | null }) {
  const at = cursor.value;
  if (
    seconds === null ||
    !source().isStored ||
    typeof at !== "number" ||
    Math.abs(seconds - at) < 1e-6
  )
    return null;
  return <span class="quiet"> · the nearest saved time</span>;
}

/** The whole recording; a press or a drag moves the chosen time. `seconds` is the shown time. */
export function MomentStrip({ seconds }: { seconds: number | null }) {
  const about = subject.value;
  const timeline = useTimeline();
  const { value, error } = timeline.value;
  if (error) return <Problem error={error} />;
  if (!about || !value) return null;
  const at = typeof cursor.value === "number" ? cursor.value : (seconds ?? value.peak.seconds);
  return (
    <Strip
      about={about}
      timeline={value}
      cursor={at}
      left={8}
      right={8}
      onMoment={(moment) => go({ at: secondsField(moment) }, { replaces: true })}
      label={`The whole recording, with the time ${at.toFixed(3)} s`}
    />
  );
}

/** The whole recording with the shown window, which is dragged by its middle or drawn anew. */
export function WindowStrip({
  window,
}: {
  window: { readonly from: number; readonly to: number };
}) {
  const about = subject.value;
  const timeline = useTimeline();
  const { value, error } = timeline.value;
  if (error) return <Problem error={error} />;
  if (!about || !value) return null;
  return (
    <Strip
      about={about}
      timeline={value}
      window={window}
      cursor={null}
      left={8}
      right={8}
      onWindow={({ from, to }, isDone) =>
        go({ from: secondsField(from), to: secondsField(to) }, { replaces: !isDone })
      }
      label={`The whole recording, with the window from ${window.from.toFixed(3)} s to ${window.to.toFixed(3)} s`}
    />
  );
}

/** The timeline of the chosen device, with the common axis of all strips. */
export function useTimeline() {
  return useDeviceAnswer("timeline", () => ({ by: "category", axis: askedAxis("time") }));
}
