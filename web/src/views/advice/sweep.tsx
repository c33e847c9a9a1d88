// The same requests under other settings of the allocator: what would have been reserved, and whether it fits.

import type { Simulation } from "../../api/types.gen";
import { formatBytes, formatChange, formatCount } from "../../base/bytes";
import { settingsCommand } from "../../base/change";
import { formatSeconds } from "../../base/seconds";
import { device } from "../../model/recording";
import { useDeviceAnswer } from "../../model/use_answer";
import { CopyButton } from "../../render/copy_button";
import { Answered } from "../../render/notices";

/** Requests at once, but takes its space only after the parts above have theirs. */
export function Sweep({ isShown }: { isShown: boolean }) {
  const hasAllocator = device.value?.reserved_peak !== null;
  const sweep = useDeviceAnswer("sweep", () => (device.value?.reserved_peak === null ? null : {}));
  return (
    <section aria-labelledby="advice-sweep" hidden={!isShown}>
      <h2 id="advice-sweep">Other allocator settings</h2>
      {hasAllocator ? (
        <Answered asked={sweep.value}>{(answer) => <Runs answer={answer} />}</Answered>
      ) : (
        <p class="quiet">
          {device.value?.device} has no caching allocator whose settings could be tried; a recording
          of a GPU has.
        </p>
      )}
    </section>
  );
}

function Runs({ answer }: { answer: Simulation }) {
  const { recorded, runs } = answer;
  const limit = recorded.memory;
  // Compare simulations with the simulated recording, which may differ from the recording.
  const own = runs.find((run) => run.alloc_conf === recorded.alloc_conf) ?? recorded;
  const widest = Math.max(
    1,
    own.peak_reserved,
    limit ?? 0,
    ...runs.map((run) => run.peak_reserved),
  );
  return (
    <>
      <p>
        The same requests, by the rules of torch {answer.torch};{" "}
        {answer.is_reproduced
          ? "under its own settings they reproduce the recording."
          : "under its own settings they do not reproduce the recording: the figures are approximate."}{" "}
        {limit === null
          ? "The recording shows no limit."
          : `No more than ${formatBytes(limit)} could be reserved.`}
      </p>
      <div class="panel sweep-box">
        <table class="sweep">
          <caption class="unseen">Peak reserved under other settings</caption>
          <Head />
          <tbody>
            {runs.map((run, index) => (
              <Line
                key={`${run.alloc_conf} ${run.memory}`}
                run={run}
                own={own}
                isBest={index === answer.best}
                widest={widest}
              />
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}

function Head() {
  const number = (title: string) => (
    <th scope="col" class="number">
      {title}
    </th>
  );
  return (
    <thead>
      <tr>
        <th scope="col">PYTORCH_CUDA_ALLOC_CONF</th>
        <th scope="col">
          <i class="swatch in-use" />
          allocated <i class="swatch waste" />
          reserved beyond it
        </th>
        {number("Reserved")}
        {number("Change")}
        <th scope="col">Fits</th>
        {number("Retries")}
        <th scope="col">
          <span class="unseen">Copy</span>
        </th>
      </tr>
    </thead>
  );
}

interface LineProps {
  readonly run: Simulation["runs"][number];
  /** The settings of the recording, simulated. */
  readonly own: Pick<Simulation["recorded"], "alloc_conf" | "peak_reserved">;
  readonly isBest: boolean;
  readonly widest: number;
}

function Line({ run, own, isBest, widest }: LineProps) {
  const change = run.peak_reserved - own.peak_reserved;
  return (
    <tr class={isBest ? "best" : ""}>
      <th scope="row">
        <code>{run.alloc_conf || "torch's own"}</code>
        {run.alloc_conf === own.alloc_conf && <span class="quiet"> settings as recorded</span>}
        {isBest && <span class="tag">best</span>}
      </th>
      <td>
        <RunBar
          allocated={run.peak_allocated}
          reserved={run.peak_reserved}
          own={own.peak_reserved}
          widest={widest}
        />
      </td>
      <td class="number">{formatBytes(run.peak_reserved)}</td>
      <td class={`number ${change < 0 ? "shrank" : ""}`}>{formatChange(change)}</td>
      <td>{fitsSentence(run)}</td>
      <td class="number">{formatCount(run.retries)}</td>
      <td>
        <CopyButton text={settingsCommand(run.alloc_conf)} />
      </td>
    </tr>
  );
}

function fitsSentence(run: Simulation["runs"][number]): string {
  if (!run.oom) return "yes";
  return `no: ${formatBytes(run.oom.requested)} at ${formatSeconds(run.oom.seconds)}`;
}

interface RunBarProps {
  readonly allocated: number;
  readonly reserved: number;
  readonly own: number;
  readonly widest: number;
}

/**
 * A bar of allocated bytes and of reserved ones beyond them, with a mark at the recorded settings.
 */
function RunBar({ allocated, reserved, own, widest }: RunBarProps) {
  const percent = (bytes: number) => `${(100 * bytes) / widest}%`;
  return (
    <span class="run-bar" aria-hidden="true">
      <i class="in-use" style={{ width: percent(Math.min(allocated, reserved)) }} />
      <i class="waste" style={{ width: percent(Math.max(0, reserved - allocated)) }} />
      <i class="recorded" style={{ left: percent(own) }} title="settings as recorded" />
    </span>
  );
}
