// The chart of lifetimes, under the pointer and the keys.

import { useMemo, useRef, useState } from "preact/hooks";
import type { Bands, Lifetimes } from "../../api/types.gen";
import { positionsOf, type TimeAxis } from "../../base/axis";
import { formatBytes } from "../../base/bytes";
import { groupColour } from "../../base/colours";
import { go, secondsField } from "../../model/address";
import { inks } from "../../model/theme";
import { TIME_AXIS_HEIGHT } from "../../render/axes";
import { choose, chosenId } from "../../render/chosen_card";
import { Empty } from "../../render/notices";
import type { Size } from "../../render/pen";
import { ScrolledPicture } from "../../render/scrolled";
import { hideTip, showTip, TipRows } from "../../render/tooltip";
import { useKeys } from "../../render/use_keys";
import { drawTensors, HEAD_HEIGHT, plotOf, scaleOf, type Tensor, type TensorPicture } from "./draw";
import {
  barAt,
  filterLives,
  foldModules,
  foldStaying,
  type Lanes,
  type LifeBar,
  lanes,
  livesWithin,
  type ModuleLanes,
  type Sort,
  stays,
} from "./lanes";
import { lifeFacts } from "./words";

interface ChartProps {
  readonly answer: Lifetimes;
  readonly label: string;
  readonly bands: Bands | null;
  readonly window: { readonly from: number; readonly to: number };
  readonly axis: TimeAxis;
  readonly seconds: number;
  readonly depth: number;
  readonly sort: Sort;
  readonly filter: string;
  /** Whether tensors that are never freed share a bar. */
  readonly foldsStaying: boolean;
  /** Whether a module has a lane for each name. */
  readonly isOpen: (module: string | null) => boolean;
  /** The open modules as text: a change lays the chart out again. */
  readonly opened: string;
  readonly onOpen: (module: string | null) => void;
}

export function TensorChart(props: ChartProps) {
  const { window, seconds } = props;
  const [top, setTop] = useState(0);
  const [pointed, setPointed] = useState<LifeBar<Tensor> | null>(null);
  const size = useRef<Size>({ width: 1080, height: 400 });
  const layout = useLayout(props, size.current);
  useTensorKeys(layout, pointed, setPointed, props);
  if (layout.modules.length === 0) return <Nothing filter={props.filter} />;
  const picture: TensorPicture = {
    layout,
    bands: props.bands,
    window,
    axis: props.axis,
    top,
    pointed: pointed?.tensor.id ?? null,
    chosen: chosenId.value,
  };
  const moduleAt = (event: MouseEvent) => {
    const y = event.offsetY - HEAD_HEIGHT + top;
    if (event.offsetX >= plotOf(size.current).x || event.offsetY < HEAD_HEIGHT) return undefined;
    return layout.modules.find((module) => y >= module.y && y < module.y + module.height);
  };
  const find = (event: MouseEvent) => {
    const plot = plotOf(size.current);
    if (event.offsetX < plot.x || event.offsetY < plot.y) return null;
    const { seconds: at } = scaleOf(picture, size.current);
    const here = at(event.offsetX);
    const slack = at(event.offsetX + 3) - here;
    return barAt(layout, here, event.offsetY - plot.y + top, slack);
  };
  return (
    <>
      <ScrolledPicture
        name="tensors"
        label={props.label}
        height={layout.height + 48}
        top={top}
        onTop={setTop}
        reveals={
          pointed && { y: pointed.y, height: pointed.height + HEAD_HEIGHT + TIME_AXIS_HEIGHT }
        }
        draw={(pen, now, colours) => {
          size.current = now;
          drawTensors(pen, now, colours, picture);
        }}
        on={{
          onPointerMove: (event) => {
            const bar = find(event);
            setPointed(bar);
            const module = moduleAt(event);
            if (bar) showTip(event.clientX, event.clientY, <LifeTip bar={bar} end={seconds} />);
            else if (module) showTip(event.clientX, event.clientY, <ModuleTip module={module} />);
            else hideTip();
          },
          onPointerLeave: () => {
            setPointed(null);
            hideTip();
          },
          onClick: (event) => {
            const module = moduleAt(event);
            if (module) props.onOpen(module.module);
            else pick(find(event));
          },
        }}
      />
      <p class="unseen" aria-live="polite">
        {pointed && `${title(pointed.tensor)}, ${formatBytes(pointed.tensor.bytes)}`}
      </p>
    </>
  );
}

function Nothing({ filter }: { filter: string }) {
  const words =
    filter === ""
      ? "Nothing was live in this window."
      : `Nothing here has “${filter}” in its name, module, category or phase.`;
  return (
    <Empty>
      <p>{words}</p>
    </Empty>
  );
}

function useLayout(props: ChartProps, size: Size): Lanes<Tensor> {
  const { answer, window, seconds } = props;
  return useMemo(() => {
    const found = foldModules(
      filterLives(livesWithin(answer.rows, window), props.filter),
      props.depth,
    );
    const rows = props.foldsStaying
      ? foldStaying(found, (tensor) => stays(tensor, window, seconds), together, props.isOpen)
      : found;
    // Two bars of a lane are a pixel apart.
    const along = positionsOf(props.axis.knots, window);
    const gap = (along.to - along.from) / plotOf(size).width;
    return lanes(rows, { end: seconds, gap, sort: props.sort, isOpen: props.isOpen });
  }, [
    answer,
    props.filter,
    props.depth,
    props.foldsStaying,
    props.opened,
    props.sort,
    seconds,
    props.axis,
    window.from,
    window.to,
  ]);
}

/** One bar for several tensors that are not freed. */
function together(tensors: readonly Tensor[], index: number): Tensor {
  const first = tensors.reduce((one, other) =>
    (other.allocated_seconds ?? 0) < (one.allocated_seconds ?? 0) ? other : one,
  );
  const bytes = tensors.reduce((sum, tensor) => sum + tensor.bytes, 0);
  const name = `${tensors.length} × ${first.category}`;
  return {
    ...first,
    id: -index,
    name,
    bytes,
    phase: null,
    saved_seconds: null,
    retained_until_seconds: null,
    last_use_seconds: null,
    count: tensors.length,
  };
}

/** Opens the card of a tensor, or splits a bar of several tensors. */
function pick(bar: LifeBar<Tensor> | null): void {
  if (bar && bar.tensor.id < 0) go({ staying: "apart" });
  else choose(bar ? bar.tensor.id : null);
}

function useTensorKeys(
  layout: Lanes<Tensor>,
  pointed: LifeBar<Tensor> | null,
  point: (bar: LifeBar<Tensor> | null) => void,
  { window, seconds, onOpen }: Pick<ChartProps, "window" | "seconds" | "onOpen">,
): void {
  const bars = layout.modules.flatMap((module) => module.bars);
  const openPointed = () => {
    const module = layout.modules.find((each) =>
      each.bars.some((bar) => bar.tensor.id === pointed?.tensor.id),
    );
    if (module) onOpen(module.module);
  };
  const move = (by: number) => {
    const here = bars.findIndex((bar) => bar.tensor.id === pointed?.tensor.id);
    point(bars[(here + by + bars.length) % bars.length] ?? null);
  };
  const show = (from: number, to: number) => {
    const length = Math.min(seconds, to - from);
    const begin = Math.min(seconds - length, Math.max(0, from));
    const isAll = length >= seconds * 0.9999;
    go(
      {
        from: isAll ? null : secondsField(begin),
        to: isAll ? null : secondsField(begin + length),
      },
      { replaces: true },
    );
  };
  const length = window.to - window.from;
  useKeys("Tensors", [
    { keys: ["n"], hint: "Next tensor", run: () => move(1) },
    { keys: ["p"], hint: "Previous tensor", run: () => move(-1) },
    { keys: ["Enter"], hint: "Open the card of the tensor", run: () => pick(pointed) },
    {
      keys: ["l"],
      hint: "Open the module of the tensor: a lane for each name",
      run: openPointed,
    },
    {
      keys: ["ArrowLeft"],
      hint: "Earlier",
      run: () => show(window.from - length / 4, window.to - length / 4),
    },
    {
      keys: ["ArrowRight"],
      hint: "Later",
      run: () => show(window.from + length / 4, window.to + length / 4),
    },
    {
      keys: ["+", "="],
      hint: "Less time, larger",
      run: () => show(window.from + length / 4, window.to - length / 4),
    },
    {
      keys: ["-"],
      hint: "More time, smaller",
      run: () => show(window.from - length / 2, window.to + length / 2),
    },
  ]);
}

function title(tensor: Tensor): string {
  return tensor.name ?? `unnamed ${tensor.category}`;
}

function ModuleTip({ module }: { module: ModuleLanes<Tensor> }) {
  const isOpen = module.names.length > 0;
  return (
    <>
      <p class="title">{module.module || "outside modules"}</p>
      <TipRows
        rows={[
          ["Tensors", String(module.count)],
          ["Bytes, added up", formatBytes(module.bytes)],
        ]}
      />
      <p class="quiet">{isOpen ? "A click closes it" : "A click shows a lane for each name"}</p>
    </>
  );
}

function LifeTip({ bar, end }: { bar: LifeBar<Tensor>; end: number }) {
  const { tensor } = bar;
  const category: [string, string, string] = [
    "Category",
    tensor.category,
    groupColour(inks.value, tensor.category, 0),
  ];
  return (
    <>
      <p class="title">{title(tensor)}</p>
      <TipRows rows={[category, ...lifeFacts(tensor, end)]} />
      <p class="quiet">
        {tensor.id >= 0 ? "A click opens its card" : "A click shows them one by one"}
      </p>
    </>
  );
}
