// The step with the peak, stacked by category; the whole recording if it has no steps, or if memory
// grows from step to step.

import type { Step, Timeline } from "../../api/types.gen";
import { formatBytes } from "../../base/bytes";
import { capital, stepName } from "../../base/sentences";
import { go, secondsField } from "../../model/address";
import { subject } from "../../model/recording";
import { useDeviceAnswer } from "../../model/use_answer";
import { useTimeline } from "../../render/moments";
import { Answered } from "../../render/notices";
import { Strip } from "../../render/strip";
import { Part } from "./part";

export function PeakStep() {
  const timeline = useTimeline();
  const steps = useDeviceAnswer("steps", () => ({}));
  const { value, error } = steps.value;
  // Wait for both before drawing: the picture would jump.
  const isKnown = value !== null || error !== null;
  const at = timeline.value.value?.peak.seconds;
  const growth = value?.leaks?.rows[0];
  const isWhole = at === undefined || growth !== undefined;
  const step = isWhole ? undefined : value?.steps.find((one) => holds(one, at));
  const whole = growth
    ? `The whole recording: ${formatBytes(growth.bytes_per_step)} more per step`
    : "The whole recording";
  return (
    <Part
      title={step ? `${capital(stepName(step))}, with the peak` : whole}
      to={window(step)}
      more="timeline"
    >
      <div class="overview-picture">
        {isKnown && (
          <Answered asked={timeline.value}>
            {(found) => <Picture timeline={found} step={step} />}
          </Answered>
        )}
      </div>
    </Part>
  );
}

function holds(step: Step, seconds: number): boolean {
  return step.from <= seconds && seconds <= step.to;
}

function window(step: Step | undefined) {
  return {
    view: "timeline",
    from: step ? secondsField(step.from) : null,
    to: step ? secondsField(step.to) : null,
  };
}

function Picture({ timeline, step }: { timeline: Timeline; step: Step | undefined }) {
  const about = subject.value;
  if (!about) return null;
  return (
    <Strip
      about={about}
      timeline={timeline}
      span={step ? { from: step.from, to: step.to } : null}
      cursor={timeline.peak.seconds}
      hasByteAxis
      right={8}
      onMoment={(seconds) => go({ ...window(step), at: secondsField(seconds) })}
      hint="A click opens this time in the timeline"
      label={
        step
          ? `Memory in ${stepName(step)}, by category, with the peak marked`
          : "Memory over the whole recording, by category, with the peak marked"
      }
    />
  );
}
