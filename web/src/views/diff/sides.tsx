// Which two recordings are compared, on which devices, at which times; all of it is in the address.

import type { At, Query } from "../../api/questions";
import type { TraceCard } from "../../api/types.gen";
import { field, go, numberField, traceField } from "../../model/address";
import { traces } from "../../model/recording";
import { useAnswer } from "../../model/use_answer";
import { Chooser } from "../../render/chooser";

export type SideName = "a" | "b";

export interface Side {
  readonly card: TraceCard;
  readonly device: string;
  readonly at: At;
}

export type Sides = Readonly<Record<SideName, Side>>;

const fields = {
  a: { trace: numberField("a"), device: field("device_a"), at: field("at_a") },
  b: { trace: numberField("b"), device: field("device_b"), at: field("at_b") },
};

/** The two recordings of the address; by default the first one and the chosen one. */
function cards(): Readonly<Record<SideName, TraceCard>> | null {
  const all = traces.value?.traces ?? [];
  const [first, second] = all;
  if (!first || !second) return null;
  const find = (id: number | null) => all.find((one) => one.id === id);
  const [namedA, namedB] = [find(fields.a.trace.value), find(fields.b.trace.value)];
  const looked = find(traceField.value);
  const b = namedB ?? (looked && looked !== namedA ? looked : second);
  const a = namedA ?? (b === first ? second : first);
  return { a, b };
}

/**
 * Both sides, or null without two recordings. The default device of a side is that with its highest
 * peak.
 */
export function sides(): Sides | null {
  const found = cards();
  if (!found) return null;
  const [a, b] = [side("a", found.a), side("b", found.b)];
  return a && b && { a, b };
}

function side(name: SideName, card: TraceCard): Side | null {
  const wanted = fields[name].device.value;
  const isThere = card.summary.devices.some((one) => one.device === wanted);
  const device = isThere ? wanted : card.default_device;
  return device === null ? null : { card, device, at: moment(fields[name].at.value) };
}

function moment(text: string): At {
  if (text === "end" || text === "oom") return text;
  const seconds = Number(text);
  return text !== "" && Number.isFinite(seconds) ? seconds : "peak";
}

/** The parameters of requests about both sides. */
function queryOf({ a, b }: Sides) {
  return {
    a: a.card.id,
    b: b.card.id,
    device_a: a.device,
    device_b: b.device,
    at_a: a.at,
    at_b: b.at,
  };
}

type DiffPath = "diff" | "diff/curves" | "diff/tree";

/** The answer about the two sides; `more` is read from signals too. */
export function useDiffAnswer<P extends DiffPath>(
  path: P,
  more: () => Omit<Query<P>, keyof ReturnType<typeof queryOf>>,
) {
  return useAnswer(() => {
    const both = sides();
    if (!both) return null;
    const revision = both.a.card.revision + both.b.card.revision;
    return { path, query: { ...queryOf(both), ...more() } as unknown as Query<P>, revision };
  });
}

export function SideChoosers({ both }: { both: Sides }) {
  const { a, b } = both;
  const isAtPeaks = a.at === "peak" && b.at === "peak";
  return (
    <div class="view-tools">
      <SideChooser name="a" label="From" side={a} />
      <SideChooser name="b" label="to" side={b} />
      <button
        type="button"
        onClick={() =>
          go({
            a: b.card.id,
            b: a.card.id,
            device_a: fields.b.device.peek(),
            device_b: fields.a.device.peek(),
            at_a: fields.b.at.peek(),
            at_b: fields.a.at.peek(),
            focus: null,
          })
        }
      >
        ⇄ Swap
      </button>
      <button
        type="button"
        disabled={isAtPeaks}
        title="Compare the two peaks"
        onClick={() => go({ at_a: null, at_b: null })}
      >
        Peaks
      </button>
    </div>
  );
}

function SideChooser({ name, label, side }: { name: SideName; label: string; side: Side }) {
  const devices = side.card.summary.devices.map((one) => one.device);
  const forget = { [`at_${name}`]: null, focus: null };
  return (
    <>
      <Chooser
        label={label}
        all={(traces.value?.traces ?? []).map((one) => [
          String(one.id),
          one.rank === null ? one.name : `rank ${one.rank} · ${one.name}`,
        ])}
        chosen={String(side.card.id)}
        onChoose={(id) => go({ ...forget, [name]: id, [`device_${name}`]: null })}
      />
      {devices.length > 1 && (
        <Chooser
          label="on"
          all={devices.map((one) => [one, one])}
          chosen={side.device}
          onChoose={(device) => go({ ...forget, [`device_${name}`]: device })}
        />
      )}
    </>
  );
}
