// Memory over time: stacked groups or ribbons, with steps and phases above and the whole recording below.

import { useEffect } from "preact/hooks";
import type { DeviceSummary, Report, Timeline } from "../../api/types.gen";
import { formatBytes } from "../../base/bytes";
import { momentSentence } from "../../base/sentences";
import { cursor, go } from "../../model/address";
import { askedAxis, axisBy } from "../../model/axis";
import { card, device, failed, type Subject, subject, traces } from "../../model/recording";
import { openOnStep } from "../../model/step_window";
import { useDeviceAnswer } from "../../model/use_answer";
import { BYTE_AXIS_WIDTH } from "../../render/axes";
import type { Window } from "../../render/blit";
import { Choices } from "../../render/choices";
import { Answered } from "../../render/notices";
import { Strip } from "../../render/strip";
import { useKeys } from "../../render/use_keys";
import type { View } from "../view";
import { ChosenCard } from "./card";
import { Chart } from "./chart";
import { type Failure, failureOf } from "./failure";
import { RIGHT } from "./layout";
import { RangePanel } from "./range";
import { Legend, Lines } from "./side";
import {
  bands,
  choose,
  chosenId,
  cursorSeconds,
  failure,
  isRibbons,
  reservedPeak,
  STACKED,
  select,
  selected,
  selectFromCursor,
  setMode,
  stackedBy,
  timeline,
  toggleFit,
} from "./state";
import "./timeline.css";
import { goTo, isWhole, move, pan, shown, toEdge, zoom } from "./window";

const AXES = [
  ["time", "Time"],
  ["events", "Events"],
  ["steps", "Steps"],
] as const;

function TimelineView() {
  const answer = useDeviceAnswer("timeline", () => ({
    by: stackedBy.value,
    axis: askedAxis(axisBy.value),
  }));
  const found = useDeviceAnswer("bands", () => ({}));
  const oom = useDeviceAnswer(
    "oom",
    (about) => (about.device === subject.value?.device ? {} : null),
    {
      of: failed,
    },
  );
  const shownTimeline = answer.value.value;
  const shownBands = found.value.value;
  const reserved = device.value?.reserved_peak ?? null;
  const report = oom.value.value;
  useEffect(() => {
    failure.value = report && failureOf(report);
    timeline.value = shownTimeline;
    bands.value = shownBands;
    reservedPeak.value = reserved;
  }, [shownTimeline, shownBands, reserved, report]);
  const about = subject.value;
  const isSettled = shownTimeline !== null && shownBands !== null && !oom.value.isOld;
  useEffect(() => {
    if (about && isSettled && !traces.value?.follows)
      openOnStep(about, shownBands.steps, firstMoment());
  }, [about, isSettled]);
  useTimelineKeys();
  return (
    <Answered asked={answer.value}>
      {(value) => subject.value && <Shown about={subject.value} timeline={value} />}
    </Answered>
  );
}

/** The time that is shown first: a failed allocation, unless the address has a time. */
function firstMoment(): number | null {
  const failed = cursor.peek() === "peak" ? failure.peek() : null;
  return failed?.seconds ?? cursorSeconds.peek();
}

function Shown({ about, timeline }: { about: Subject; timeline: Timeline }) {
  return (
    <div class={selected.value ? "timeline has-range" : "timeline"}>
      <div class="timeline-head">
        <Sentence />
        <Choices
          label="Picture"
          all={[
            ["stack", "Stacked"],
            ["allocations", "By allocation"],
          ]}
          chosen={isRibbons.value ? "allocations" : "stack"}
          onChoose={(choice) => setMode(choice as "stack" | "allocations")}
        />
        <Choices
          label="Axis"
          all={AXES.filter(([by]) => by !== "steps" || (card.value?.summary.steps ?? 0) > 0)}
          chosen={axisBy.value}
          onChoose={(by) => go({ axis: by === "time" ? null : by })}
        />
        <Lines timeline={timeline} />
        <button
          type="button"
          disabled={isWhole.value}
          onClick={() => goTo(null)}
          title="The whole recording (0)"
        >
          Whole recording
        </button>
      </div>
      <div class="panel timeline-chart">
        <Chart about={about} timeline={timeline} />
      </div>
      <div class="panel timeline-strip">
        <Strip
          about={about}
          timeline={timeline}
          window={shown.value}
          cursor={cursorSeconds.value}
          left={BYTE_AXIS_WIDTH}
          right={RIGHT}
          onWindow={(window, isDone) => (isDone ? goTo(window) : move(window))}
          label="The whole recording; the part that is shown above is framed"
        />
      </div>
      {selected.value && <RangePanel />}
      <aside class="panel timeline-side">
        <Legend timeline={timeline} />
        <ChosenCard />
      </aside>
    </div>
  );
}

function Sentence() {
  const here = device.value;
  const at = cursor.value;
  const report = useDeviceAnswer(
    "report",
    ({ seconds }) => {
      const isChosen = at === "end" || (typeof at === "number" && at <= seconds);
      return isChosen ? { by: "category", at } : null;
    },
    { delayMillis: 60 },
  ).value.value;
  if (!here) return null;
  const bandsLeftOut = bands.value?.skipped ?? 0;
  const said = report
    ? chosenSentence(here, report)
    : spokenSentence(here, failure.value, shown.value);
  return (
    <p class="sentence" title={said}>
      {said}
      {bandsLeftOut > 0 && (
        <span class="quiet"> · {bandsLeftOut} steps, phases or marks are not drawn</span>
      )}
    </p>
  );
}

/** The chosen time, then the peak. */
function chosenSentence({ device, peak }: DeviceSummary, report: Report): string {
  const { at, allocated, reserved } = report;
  const chosen = momentSentence({ ...at, device, allocated, reserved });
  return `${chosen} · peak: ${formatBytes(peak)} allocated`;
}

/**
 * The failed allocation if it is in the window, with the peak if that is higher; else only the
 * peak.
 */
function spokenSentence(here: DeviceSummary, failed: Failure | null, { from, to }: Window): string {
  const { at, device, peak, reserved } = here;
  if (!failed || failed.seconds < from || failed.seconds > to)
    return momentSentence({ ...at, device, allocated: peak, reserved });
  if (formatBytes(failed.allocated) === formatBytes(peak)) return failed.sentence;
  const when = at.step === null ? `at ${at.seconds.toFixed(3)} s` : `in step ${at.step}`;
  return `${failed.sentence} · peak: ${formatBytes(peak)} allocated ${when}`;
}

function useTimelineKeys(): void {
  const middle = () => {
    const { from, to } = shown.peek();
    const at = cursorSeconds.peek();
    return at !== null && at >= from && at <= to ? at : (from + to) / 2;
  };
  useKeys("Timeline", [
    { keys: ["+", "="], hint: "Closer, around the cursor", run: () => zoom(0.6, middle()) },
    { keys: ["-", "_"], hint: "Further away", run: () => zoom(1 / 0.6, middle()) },
    { keys: ["ArrowLeft"], hint: "Earlier", run: () => pan(-0.15) },
    { keys: ["ArrowRight"], hint: "Later", run: () => pan(0.15) },
    { keys: ["Shift+ArrowLeft"], hint: "A whole window earlier", run: () => pan(-1) },
    { keys: ["Shift+ArrowRight"], hint: "A whole window later", run: () => pan(1) },
    { keys: ["Home"], hint: "To the beginning", run: () => toEdge("start") },
    { keys: ["End"], hint: "To the end", run: () => toEdge("end") },
    { keys: ["0"], hint: "The whole recording", run: () => goTo(null) },
    { keys: ["f"], hint: "Scale the height to what is shown", run: toggleFit },
    { keys: ["p"], hint: "Cursor to the peak", run: () => go({ at: null }, { replaces: true }) },
    {
      keys: ["e"],
      hint: "Cursor to the end",
      run: () => go({ at: cursor.peek() === "end" ? null : "end" }, { replaces: true }),
    },
    {
      keys: ["r"],
      hint: "Select what is shown: what changed in it",
      run: () => select(shown.peek()),
    },
    {
      keys: ["["],
      hint: "Begin the selection at the cursor",
      run: () => selectFromCursor("from", shown.peek()),
    },
    {
      keys: ["]"],
      hint: "End the selection at the cursor",
      run: () => selectFromCursor("to", shown.peek()),
    },
    {
      keys: ["Escape"],
      hint: "Close the allocation's card, then the selection",
      run: () => (chosenId.peek() === null && selected.peek() ? select(null) : choose(null)),
    },
  ]);
}

export const timelineView: View = {
  name: "timeline",
  title: "Timeline",
  key: "2",
  hint: "memory over time",
  component: TimelineView,
  groupings: STACKED,
};
