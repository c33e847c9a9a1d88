// The recorded segments beside those under another allocator setting.

import type { Segments, Simulation } from "../../api/types.gen";
import { formatBytes, formatChange } from "../../base/bytes";
import { cursor, field, go } from "../../model/address";
import { useDeviceAnswer } from "../../model/use_answer";
import { Chooser } from "../../render/chooser";
import { Answered, Problem } from "../../render/notices";
import { bestName, bestRun } from "./best_run";
import { SegmentMap } from "./map";
import type { Order } from "./rows";

/** Empty without a comparison; `best`, or a value of `PYTORCH_CUDA_ALLOC_CONF`. */
export const settingField = field("setting");

export function isCompared(): boolean {
  return settingField.value !== "";
}

function useSweep() {
  return useDeviceAnswer("sweep", () => (isCompared() ? {} : null));
}

/** The setting to compare with. */
function settingOf(sweep: Simulation | null): string | null {
  if (settingField.value !== "best") return settingField.value || null;
  return sweep && (bestRun(sweep)?.alloc_conf ?? "");
}

/** Switches the comparison on and off, and chooses its setting. */
export function SettingTools() {
  const sweep = useSweep().value.value;
  if (!isCompared())
    return (
      <button type="button" onClick={() => go({ setting: "best" })}>
        Compare with a setting
      </button>
    );
  const settings = (sweep?.runs ?? []).filter((run) => run.alloc_conf !== "");
  const all: (readonly [string, string])[] = [
    ["", "none"],
    ["best", bestName(sweep)],
    ...settings.map(
      (run) =>
        [run.alloc_conf, `${run.alloc_conf} (${formatBytes(run.peak_reserved)} at most)`] as const,
    ),
  ];
  return (
    <Chooser
      label="setting"
      all={all}
      chosen={settingField.value}
      onChoose={(choice) => go({ setting: choice || null })}
    />
  );
}

interface ComparedProps {
  readonly answer: Segments;
  readonly order: Order;
  readonly wanted: number | null;
}

/** Both maps, the recorded one first. */
export function Compared({ answer, order, wanted }: ComparedProps) {
  const asked = useSweep();
  const sweep = asked.value;
  const setting = settingOf(sweep.value);
  const other = useDeviceAnswer(
    "segments/simulated",
    () => {
      const conf = settingOf(asked.value.value);
      return conf === null ? null : { at: cursor.value, conf };
    },
    { delayMillis: 60 },
  );
  return (
    <div class="compared">
      <section class="panel" aria-label="Recorded">
        <h3>Recorded{sentence(answer)}</h3>
        <SegmentMap answer={answer} order={order} wanted={wanted} isQuiet />
      </section>
      <section class="panel" aria-label="Simulated">
        {sweep.error ? (
          <Problem error={sweep.error} />
        ) : (
          <Answered asked={other.value}>
            {(found) => (
              <>
                <h3>
                  Simulated with <code>{setting || "the default"}</code>
                  {sentence(found.segments)}
                  {found.oom && (
                    <span class="grew">
                      {" "}
                      · an allocation fails at {found.oom.seconds.toFixed(3)} s
                    </span>
                  )}
                </h3>
                <SegmentMap answer={found.segments} order={order} wanted={wanted} />
              </>
            )}
          </Answered>
        )}
      </section>
      <Figures a={answer} b={other.value.value?.segments ?? null} />
    </div>
  );
}

function sentence(answer: Segments): string {
  return `: ${formatBytes(answer.fragmentation.reserved)} reserved`;
}

const FIGURES: readonly (readonly [keyof Segments["fragmentation"], string])[] = [
  ["reserved", "Reserved"],
  ["free", "Free"],
  ["split", "Split"],
  ["unusable", "Unusable"],
  ["rounding", "Rounding"],
  ["largest_free", "Largest free block"],
];

/** The numbers of both, and the change. */
function Figures({ a, b }: { a: Segments; b: Segments | null }) {
  return (
    <table class="panel compared-figures">
      <caption class="unseen">Recorded and simulated</caption>
      <thead>
        <tr>
          <td />
          {FIGURES.map(([name, title]) => (
            <th key={name} scope="col">
              {title}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        <FigureRow title="Recorded" of={(name) => formatBytes(a.fragmentation[name])} />
        <FigureRow title="Simulated" of={(name) => (b ? formatBytes(b.fragmentation[name]) : "")} />
        <FigureRow
          title="Change"
          of={(name) => (b ? formatChange(b.fragmentation[name] - a.fragmentation[name]) : "")}
        />
      </tbody>
    </table>
  );
}

function FigureRow({
  title,
  of,
}: {
  title: string;
  of: (name: keyof Segments["fragmentation"]) => string;
}) {
  return (
    <tr>
      <th scope="row">{title}</th>
      {FIGURES.map(([name]) => (
        <td key={name}>{of(name)}</td>
      ))}
    </tr>
  );
}
