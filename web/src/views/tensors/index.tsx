// When each tensor was allocated, saved for the backward pass, last used and freed, by module.

import { useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import type { Bands, Lifetimes } from "../../api/types.gen";
import { plainAxis } from "../../base/axis";
import { groupColour } from "../../base/colours";
import { field, go, range } from "../../model/address";
import { device, failed, type Subject, source, subject, traces } from "../../model/recording";
import { openOnStep } from "../../model/step_window";
import { inks } from "../../model/theme";
import { useDeviceAnswer } from "../../model/use_answer";
import { Choices } from "../../render/choices";
import { Chooser } from "../../render/chooser";
import { ChosenCard, chosenId } from "../../render/chosen_card";
import { useTimeline, WindowStrip } from "../../render/moments";
import { Answered, Empty } from "../../render/notices";
import "../../render/tools.css";
import type { View } from "../view";
import { TensorChart } from "./chart";
import { idleFrom, isKept } from "./draw";
import { livesWithin, type Sort } from "./lanes";
import { TensorTable } from "./table";
import "./tensors.css";
import { countTensors, lifetimesSentence } from "./words";

const sortField = field("sort", "time");
const depthField = field("depth", "99");
const topField = field("top", "400");
const shownField = field("tensors", "chart");
const stayingField = field("staying", "together");
/** Modules with a lane for each name: all, or the listed ones. */
const lanesField = field("lanes", "packed");
const openField = field("open");

/** A module's name in the address, where `|` separates two. */
function openName(module: string | null): string {
  return module || "(none)";
}

function openModules(): readonly string[] {
  return openField.value === "" ? [] : openField.value.split("|");
}

/** If all modules have lanes by name, the list has the closed ones. */
function isOpen(module: string | null): boolean {
  return openModules().includes(openName(module)) !== (lanesField.value === "names");
}

function toggle(module: string | null): void {
  const [name, listed] = [openName(module), openModules()];
  const next = listed.includes(name) ? listed.filter((one) => one !== name) : [...listed, name];
  go({ open: next.join("|") || null });
}

const DEPTHS: readonly (readonly [string, string])[] = [
  ["99", "every module"],
  ["1", "1 deep"],
  ["2", "2 deep"],
  ["3", "3 deep"],
  ["4", "4 deep"],
];
const TOPS = ["100", "400", "1500", "5000"] as const;

/** What the bars are filtered by. */
const filterField = field("find_tensors");

function Tensors() {
  const bands = useDeviceAnswer("bands", () => ({})).value;
  // Choose the window before requesting tensors, so that nothing is drawn twice.
  const hasWindow = useSignal(false);
  const about = subject.value;
  useEffect(() => {
    if (!about || (!bands.value && !bands.error)) return;
    if (bands.value && !traces.value?.follows)
      openOnStep(about, bands.value.steps, firstMoment(about));
    hasWindow.value = true;
  }, [about, bands.value, bands.error]);
  const answer = useDeviceAnswer(
    "lifetimes",
    ({ seconds }) => {
      if (!hasWindow.value) return null;
      const top = Number(
        (TOPS as readonly string[]).includes(topField.value) ? topField.value : 400,
      );
      return { ...(range.value ?? { from: 0, to: seconds }), top };
    },
    { delayMillis: 80 },
  );
  return (
    <Answered asked={answer.value}>
      {(value) => <Shown answer={value} bands={bands.value} />}
    </Answered>
  );
}

/** The time whose step is shown first: the failed allocation, or the peak. */
function firstMoment(about: Subject): number | null {
  if (failed.peek()?.device === about.device) return about.seconds;
  return device.peek()?.at.seconds ?? null;
}

function setFilter(text: string): void {
  go({ find_tensors: text }, { replaces: true });
}

function Shown({ answer: all, bands }: { answer: Lifetimes; bands: Bands | null }) {
  const filter = filterField.value;
  const seconds = subject.value?.seconds ?? 1;
  const window = range.value ?? { from: 0, to: seconds };
  // A saved page has one answer, that of the whole recording.
  const isPart = source().isStored && range.value !== null;
  const answer = useMemo(
    () => (isPart ? { ...all, rows: livesWithin(all.rows, window) } : all),
    [all, isPart, window.from, window.to],
  );
  const timeline = useTimeline().value.value;
  const axis = useMemo(() => timeline?.axis ?? plainAxis(seconds), [timeline, seconds]);
  const sentence = lifetimesSentence(all, answer.rows);
  const isLess = countTensors(answer.rows) < countTensors(all.rows);
  const sort: Sort = sortField.value === "bytes" ? "bytes" : "time";
  const isTable = shownField.value === "table";
  return (
    <div class="tensors">
      <p>
        {sentence}
        {isLess && <span class="quiet"> · a saved page has no others</span>}
      </p>
      <Tools filter={filter} onFilter={setFilter} sort={sort} isTable={isTable} />
      <div class="panel tensors-strip">
        <WindowStrip window={window} />
      </div>
      <div class="tensors-body" data-card={chosenId.value !== null}>
        <div class="panel">
          {answer.rows.length === 0 ? (
            <Empty>
              <p>No tensor was live in this window.</p>
              <p>
                <button type="button" onClick={() => go({ from: null, to: null })}>
                  Show the whole recording
                </button>
              </p>
            </Empty>
          ) : isTable ? (
            <TensorTable answer={answer} seconds={seconds} />
          ) : (
            <TensorChart
              answer={answer}
              label={sentence}
              bands={bands}
              window={window}
              axis={axis}
              seconds={seconds}
              depth={Number(depthField.value) || 99}
              sort={sort}
              filter={filter}
              foldsStaying={stayingField.value !== "apart"}
              isOpen={isOpen}
              opened={`${lanesField.value} ${openField.value}`}
              onOpen={toggle}
            />
          )}
        </div>
        {chosenId.value !== null && (
          <aside class="panel tensors-card">
            <ChosenCard />
          </aside>
        )}
      </div>
      {!isTable && <Legend answer={answer} />}
    </div>
  );
}

interface ToolsProps {
  readonly filter: string;
  readonly onFilter: (filter: string) => void;
  readonly sort: Sort;
  readonly isTable: boolean;
}

function Tools(props: ToolsProps) {
  const { isTable } = props;
  return (
    <div class="view-tools">
      {!isTable && <ChartTools {...props} />}
      <Chooser
        label="largest"
        all={TOPS.map((top) => [top, top] as const)}
        chosen={topField.value}
        onChoose={(top) => go({ top })}
      />
      <button
        type="button"
        disabled={range.value === null}
        title="Show the whole recording"
        onClick={() => go({ from: null, to: null })}
      >
        Whole recording
      </button>
      <span class="gap" />
      <Choices
        label="Shown as"
        all={[
          ["chart", "Chart"],
          ["table", "Table"],
        ]}
        chosen={isTable ? "table" : "chart"}
        onChoose={(choice) => go({ tensors: choice === "chart" ? null : choice })}
      />
    </div>
  );
}

function ChartTools({ filter, onFilter, sort }: ToolsProps) {
  return (
    <>
      <input
        type="search"
        placeholder="Filter"
        aria-label="Filter tensors by name, module, category or phase"
        value={filter}
        onInput={(event) => onFilter(event.currentTarget.value)}
      />
      <Choices
        label="Order of modules"
        all={[
          ["time", "By first use"],
          ["bytes", "By bytes"],
        ]}
        chosen={sort}
        onChoose={(choice) => go({ sort: choice === "time" ? null : choice })}
      />
      <Choices
        label="Lanes of a module"
        all={[
          ["packed", "Packed"],
          ["names", "By name"],
        ]}
        chosen={lanesField.value === "names" ? "names" : "packed"}
        onChoose={(choice) => go({ lanes: choice === "packed" ? null : choice, open: null })}
      />
      <Chooser
        label="rows"
        all={DEPTHS}
        chosen={depthField.value}
        onChoose={(depth) => go({ depth })}
      />
      <label class="chooser" title="Tensors that are live all the time are one bar of a module">
        <input
          type="checkbox"
          checked={stayingField.value !== "apart"}
          onChange={(event) => go({ staying: event.currentTarget.checked ? null : "apart" })}
        />
        group staying tensors
      </label>
    </>
  );
}

function Legend({ answer }: { answer: Lifetimes }) {
  const found = new Set(answer.rows.flatMap((row) => row.tensors.map((tensor) => tensor.category)));
  const hasIdle = answer.rows.some((row) => row.tensors.some((one) => idleFrom(one) !== null));
  const hasSaved = answer.rows.some((row) => row.tensors.some(isKept));
  return (
    <p class="tensor-legend quiet">
      {[...found].sort().map((name) => (
        <span key={name}>
          <i class="swatch" style={{ background: groupColour(inks.value, name, 0) }} />
          {name}
        </span>
      ))}
      {hasSaved && (
        <span>
          <i class="swatch saved" />
          saved for backward
        </span>
      )}
      {hasIdle && (
        <span>
          <i class="swatch idle" />
          idle after the last known use
        </span>
      )}
      <span>higher bars are larger tensors</span>
    </p>
  );
}

export const tensors: View = {
  name: "tensors",
  title: "Tensors",
  key: "6",
  hint: "when each tensor was allocated, used and freed, by module",
  component: Tensors,
};
