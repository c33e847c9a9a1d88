// Peak, end and growth of each step, the peaks of its phases, and lines that grow from step to
// step.

import { useMemo, useState } from "preact/hooks";
import type { Steps as StepsAnswer } from "../../api/types.gen";
import { formatBytes } from "../../base/bytes";
import { phaseColour } from "../../base/colours";
import { shortener } from "../../base/paths";
import { phaseName } from "../../base/sentences";
import { field, go, secondsField } from "../../model/address";
import { card } from "../../model/recording";
import { inks } from "../../model/theme";
import { useDeviceAnswer } from "../../model/use_answer";
import { Choices } from "../../render/choices";
import { Answered, Empty } from "../../render/notices";
import type { Size } from "../../render/pen";
import { Picture } from "../../render/picture";
import { hideTip, showTip, TipRows } from "../../render/tooltip";
import { useBarKeys } from "../../render/use_bar_keys";
import "../../render/tools.css";
import type { View } from "../view";
import { type Bar, phaseNames, stepBars, stepsPerBar } from "./bars";
import { barAt, drawSteps, MOST_SUSPECTS, plotOf, type StepPicture, type Suspect } from "./draw";
import "./steps.css";
import { StepTable, SuspectTable } from "./tables";
import {
  barFacts,
  barTitle,
  finishedGrowth,
  type Step,
  stepsSentence,
  suspectsSentence,
} from "./words";

const shownField = field("steps", "levels");
const listField = field("list");

function Steps() {
  const answer = useDeviceAnswer("steps", () => ({}));
  return <Answered asked={answer.value}>{(value) => <Shown answer={value} />}</Answered>;
}

function Shown({ answer }: { answer: StepsAnswer }) {
  if (answer.steps.length === 0)
    return (
      <Empty>
        <p>No step finished in this recording.</p>
        <p>
          A step ends when an optimizer has stepped; in a program without one,{" "}
          <code>floodmark.step()</code> ends it.
        </p>
      </Empty>
    );
  const wanted = listField.value || (answer.leaks?.rows.length ? "suspects" : "all");
  const list = wanted === "suspects" ? "suspects" : "all";
  return (
    <div class="steps">
      <div class="view-tools">
        <p>{stepsSentence(answer.steps)}</p>
        <Choices
          label="What the bars show"
          all={[
            ["levels", "Peak, end and growth"],
            ["phases", "By phase"],
          ]}
          chosen={shownField.value === "phases" ? "phases" : "levels"}
          onChoose={(choice) => go({ steps: choice === "levels" ? null : choice })}
        />
      </div>
      <Bars answer={answer} />
      <section class="panel step-list" aria-label="Suspects and steps">
        <div class="view-tools">
          <Choices
            label="What is listed"
            all={[
              ["suspects", `Suspects (${answer.leaks?.total_rows ?? 0})`],
              ["all", "All steps"],
            ]}
            chosen={list}
            onChoose={(choice) => go({ list: choice })}
          />
          <p class="quiet">{suspectsSentence(answer)}</p>
        </div>
        {list === "all" ? (
          <StepTable steps={answer.steps} onPick={openStep} />
        ) : (
          <SuspectTable answer={answer} />
        )}
      </section>
    </div>
  );
}

function Bars({ answer }: { answer: StepsAnswer }) {
  const steps = useMemo(() => finishedGrowth(answer.steps), [answer]);
  const [size, setSize] = useState<Size>({ width: 1200, height: 300 });
  const [chosen, setChosen] = useState<number | null>(null);
  const bars = useMemo(
    () => stepBars(steps, stepsPerBar(steps.length, plotOf(size).width)),
    [steps, size.width],
  );
  const picture: StepPicture = {
    bars,
    numbers: steps.map((step) => step.number),
    unfinished: steps.at(-1)?.is_finished === false ? steps.length - 1 : null,
    phases: phaseNames(steps),
    byPhase: shownField.value === "phases",
    suspects: suspects(answer),
    chosen,
  };
  const open = (at: number | null) => {
    const bar = at === null ? undefined : bars[at];
    const [first, last] = [steps[bar?.first ?? -1], steps[bar?.last ?? -1]];
    if (first && last) openStep({ ...first, to: last.to });
  };
  useBarKeys("Steps", {
    what: "step",
    count: bars.length,
    chosen,
    onChoose: setChosen,
    onOpen: open,
  });
  const at = (event: MouseEvent) => barAt(picture, size, event.offsetX);
  const bar = chosen === null ? undefined : bars[chosen];
  return (
    <div class="panel step-picture">
      <Picture
        name="steps"
        label={stepsSentence(steps)}
        draw={(pen, now, colours) => {
          if (now.width !== size.width || now.height !== size.height) setSize(now);
          drawSteps(pen, now, colours, picture);
        }}
        on={{
          onPointerMove: (event) => {
            const found = at(event);
            setChosen(found);
            const under = found === null ? undefined : bars[found];
            if (!under) return hideTip();
            const content = <BarTip bar={under} steps={steps} phases={picture.phases} />;
            showTip(event.clientX, event.clientY, content);
          },
          onPointerLeave: () => {
            setChosen(null);
            hideTip();
          },
          onClick: (event) => open(at(event)),
        }}
      />
      <p class="unseen" aria-live="polite">
        {bar &&
          `${barTitle(bar, steps)}: ${barFacts(bar, steps)
            .map((fact) => fact.join(" "))
            .join(", ")}`}
      </p>
    </div>
  );
}

interface TipProps {
  readonly bar: Bar;
  readonly steps: readonly Step[];
  readonly phases: readonly string[];
}

function BarTip({ bar, steps, phases }: TipProps) {
  const rows = phases.map((name, index): [string, string, string] => [
    phaseName(name),
    formatBytes(bar.phases[index] ?? 0),
    phaseColour(inks.value, name),
  ]);
  return (
    <>
      <p class="title">{barTitle(bar, steps)}</p>
      <TipRows rows={[...barFacts(bar, steps), ...rows]} />
      <p class="quiet">A click shows it in the timeline</p>
    </>
  );
}

/** The lines that grow most, with the index of the first step in which they grow. */
function suspects(answer: StepsAnswer): Suspect[] {
  const rows = answer.leaks?.rows ?? [];
  const short = shortener(rows.map((leak) => leak.location));
  return rows.slice(0, MOST_SUSPECTS).map((leak) => {
    const index = answer.steps.findIndex((step) => step.number >= leak.since);
    const text = `${short(leak.location)} grows by ${formatBytes(leak.bytes_per_step)} per step since step ${leak.since}`;
    return { since: Math.max(0, index), text };
  });
}

function openStep(step: Pick<Step, "from" | "to">): void {
  go({ view: "timeline", from: secondsField(step.from), to: secondsField(step.to) });
}

export const steps: View = {
  name: "steps",
  title: "Steps",
  key: "5",
  hint: "the peak and the end of each step, and what grows from step to step",
  component: Steps,
  isThere: () => (card.value?.summary.steps ?? 0) > 0,
};
