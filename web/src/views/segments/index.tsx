// The blocks in torch's segments at the chosen time.

import { computed } from "@preact/signals";
import type { At } from "../../api/questions";
import type { Segments as SegmentsAnswer } from "../../api/types.gen";
import { momentSentence } from "../../base/sentences";
import { field, go, namedMoment } from "../../model/address";
import { card, device, failed } from "../../model/recording";
import { useDeviceAnswer } from "../../model/use_answer";
import { Choices } from "../../render/choices";
import { Chooser } from "../../render/chooser";
import { ChosenCard, chosenId } from "../../render/chosen_card";
import { MomentButtons, MomentStrip, Nearest } from "../../render/moments";
import { Answered, Empty } from "../../render/notices";
import "../../render/tools.css";
import type { View } from "../view";
import { Compared, isCompared, SettingTools } from "./compared";
import { Curve } from "./curve";
import { Fragmentation } from "./fragmentation";
import { SegmentMap } from "./map";
import { Owners } from "./owners";
import type { Order } from "./rows";
import "./segments.css";
import { SegmentTable } from "./table";

const orderField = field("order", "address");
const rowField = field("row", "auto");
const shownField = field("segments", "map");

const MIB = 2 ** 20;
const ROWS: readonly (readonly [string, string])[] = [
  ["auto", "automatic"],
  [String(2 * MIB), "2 MiB"],
  [String(8 * MIB), "8 MiB"],
  [String(32 * MIB), "32 MiB"],
  [String(128 * MIB), "128 MiB"],
  [String(512 * MIB), "512 MiB"],
  [String(2048 * MIB), "2 GiB"],
  [String(8192 * MIB), "8 GiB"],
];

/** The time that the map shows: by default a failed allocation on this device, if any. */
const moment = computed<At>(() => namedMoment.value ?? first());

function first(): At {
  return failed.value !== null && failed.value.device === device.value?.device ? "oom" : "peak";
}

function Segments() {
  const answer = useDeviceAnswer(
    "segments",
    () => (device.value?.reserved_peak === null ? null : { at: moment.value }),
    { delayMillis: 60 },
  );
  if (device.value?.reserved_peak === null) return <NoSegments />;
  return <Answered asked={answer.value}>{(value) => <Shown answer={value} />}</Answered>;
}

function NoSegments() {
  const other = card.value?.summary.devices.find((one) => one.reserved_peak !== null);
  return (
    <Empty>
      <p>
        The recording has no segments of {device.value?.device}: only PyTorch's caching allocator
        has them.
      </p>
      {other ? (
        <p>
          <button type="button" onClick={() => go({ device: other.device })}>
            Show {other.device}
          </button>
        </p>
      ) : (
        <p>A recording of a program on a GPU has them.</p>
      )}
    </Empty>
  );
}

function Shown({ answer }: { answer: SegmentsAnswer }) {
  const on = device.value?.device ?? "";
  const order: Order = orderField.value === "size" ? "size" : "address";
  const row = ROWS.some(([value]) => value === rowField.value) ? rowField.value : "auto";
  const isTable = shownField.value === "table";
  return (
    <div class="segments">
      <div class="view-tools">
        <p>
          {momentSentence({
            device: on,
            ...answer.at,
            ...answer.totals,
            seconds: answer.at.seconds,
          })}
          <Nearest seconds={answer.at.seconds} />
        </p>
        <MomentButtons first={first()} />
        {!isTable && <MapTools order={order} row={row} />}
        {!isTable && <SettingTools />}
        <Choices
          label="Shown as"
          all={[
            ["map", "Map"],
            ["table", "Table"],
          ]}
          chosen={isTable ? "table" : "map"}
          onChoose={(choice) => go({ segments: choice === "map" ? null : choice })}
        />
      </div>
      <div class="panel segments-strip">
        <MomentStrip seconds={answer.at.seconds} />
      </div>
      <div class="panel segments-curve-box">
        <Curve seconds={answer.at.seconds} />
      </div>
      <Body answer={answer} isTable={isTable} order={order} row={row} />
    </div>
  );
}

function MapTools({ order, row }: { order: Order; row: string }) {
  return (
    <>
      <Choices
        label="Order of segments"
        all={[
          ["address", "By address"],
          ["size", "By size"],
        ]}
        chosen={order}
        onChoose={(choice) => go({ order: choice === "address" ? null : choice })}
      />
      <Chooser
        label="row"
        all={ROWS}
        chosen={row}
        onChoose={(choice) => go({ row: choice === "auto" ? null : choice })}
      />
    </>
  );
}

interface BodyProps {
  readonly answer: SegmentsAnswer;
  readonly isTable: boolean;
  readonly order: Order;
  readonly row: string;
}

function Body({ answer, isTable, order, row }: BodyProps) {
  if (answer.segments.length === 0)
    return (
      <Empty>
        <p>Nothing is reserved at this time.</p>
        <p>
          <button type="button" onClick={() => go({ at: "peak" })}>
            Go to the peak
          </button>
        </p>
      </Empty>
    );
  const wanted = row === "auto" ? null : Number(row);
  if (!isTable && isCompared())
    return (
      <div class="segments-body" data-card={chosenId.value !== null}>
        <Compared answer={answer} order={order} wanted={wanted} />
        {chosenId.value !== null && (
          <aside class="panel segments-side">
            <ChosenCard />
          </aside>
        )}
      </div>
    );
  return (
    <div class="segments-body" data-card="true">
      <div class="panel">
        {isTable ? (
          <SegmentTable answer={answer} />
        ) : (
          <SegmentMap answer={answer} order={order} wanted={wanted} />
        )}
      </div>
      <aside class="panel segments-side">
        <ChosenCard>
          <Fragmentation answer={answer} />
          <Owners answer={answer} />
        </ChosenCard>
      </aside>
    </div>
  );
}

export const segments: View = {
  name: "segments",
  title: "Segments",
  key: "4",
  hint: "how blocks lie in memory, which lines have them, and what is free between them",
  component: Segments,
};
