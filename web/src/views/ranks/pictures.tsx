// The two pictures of ranks: bars, and a grid of nodes and local ranks. Both show peaks, or one line of the program.

import { useMemo, useState } from "preact/hooks";
import type { Rank, RankLine, Ranks } from "../../api/types.gen";
import { formatBytes } from "../../base/bytes";
import { go } from "../../model/address";
import type { Size } from "../../render/pen";
import { Picture } from "../../render/picture";
import { hideTip, showTip, TipRows } from "../../render/tooltip";
import { useBarKeys } from "../../render/use_bar_keys";
import { useKeys } from "../../render/use_keys";
import { rankBars } from "./bars";
import { drawRanks, rankAt, rankPlot } from "./draw";
import { cellAt, cellBeside, drawGrid, rankGrid } from "./grid";
import { outlierSentence, rankName, sentence } from "./words";

export interface RankPictureProps {
  readonly answer: Ranks;
  /** The line to show instead of the peaks. */
  readonly line: RankLine | null;
}

/** The drawn value of each rank. */
function shownValues({ answer, line }: RankPictureProps) {
  return {
    values: answer.ranks.map((rank, at) => (line ? (line.bytes[at] ?? 0) : rank.peak)),
    isOutlier: answer.ranks.map((rank, at) => (line ? at === line.furthest : rank.is_outlier)),
    median: line ? line.median : (answer.median ?? 0),
  };
}

function labelOf({ answer, line }: RankPictureProps): string {
  if (!line) return sentence(answer);
  return `${line.location}: from ${formatBytes(line.lowest)} to ${formatBytes(line.highest)} on a rank, the median is ${formatBytes(line.median)}`;
}

export function RankBars(props: RankPictureProps) {
  const { answer, line } = props;
  const { ranks } = answer;
  const [size, setSize] = useState<Size>({ width: 1200, height: 300 });
  const [chosen, setChosen] = useState<number | null>(null);
  const { values, isOutlier, median } = useMemo(() => shownValues(props), [answer, line]);
  const bars = useMemo(() => {
    const levels = values.map((peak, at) => ({ peak, is_outlier: isOutlier[at] ?? false }));
    return rankBars(levels, rankPlot(size).width);
  }, [values, size.width]);
  const picture = {
    bars,
    names: ranks.map(rankName),
    reserved: ranks.map((rank) => (line ? null : rank.reserved_peak)),
    median,
    title: line ? "bytes of the line" : "allocated peak",
    chosen,
  };
  const openBar = (at: number | null) => openRank(ranks[bars[at ?? -1]?.shown ?? -1]);
  useBarKeys("Ranks", {
    what: "rank",
    count: bars.length,
    chosen,
    onChoose: setChosen,
    onOpen: openBar,
  });
  const shown = bars[chosen ?? -1]?.shown;
  return (
    <>
      <Picture
        name="ranks"
        label={labelOf(props)}
        draw={(pen, now, colours) => {
          if (now.width !== size.width || now.height !== size.height) setSize(now);
          drawRanks(pen, now, colours, picture);
        }}
        on={{
          onPointerMove: (event) => {
            const at = rankAt(picture, size, event.offsetX);
            setChosen(at);
            const bar = at === null ? undefined : bars[at];
            if (!bar) return hideTip();
            tip(event, props, bar.shown, bar.last - bar.first + 1);
          },
          onPointerLeave: () => {
            setChosen(null);
            hideTip();
          },
          onClick: (event) => openBar(rankAt(picture, size, event.offsetX)),
        }}
      />
      <ChosenRank props={props} rank={shown} />
    </>
  );
}

export function RankGrid(props: RankPictureProps) {
  const { answer, line } = props;
  const [size, setSize] = useState<Size>({ width: 1200, height: 300 });
  const [chosen, setChosen] = useState<number | null>(null);
  const shown = useMemo(() => shownValues(props), [answer, line]);
  const grid = useMemo(() => rankGrid(answer.ranks, answer.nodes), [answer]);
  const move = (columns: number, rows: number) =>
    setChosen(chosen === null ? 0 : cellBeside(grid, chosen, columns, rows));
  useKeys("Ranks", [
    { keys: ["ArrowRight", "n"], hint: "Next node", run: () => move(1, 0) },
    { keys: ["ArrowLeft", "p"], hint: "The node before", run: () => move(-1, 0) },
    { keys: ["ArrowDown"], hint: "Next rank of the node", run: () => move(0, 1) },
    { keys: ["ArrowUp"], hint: "The rank of the node before", run: () => move(0, -1) },
    {
      keys: ["Enter"],
      hint: "Show the chosen rank in the timeline",
      run: () => openRank(answer.ranks[chosen ?? -1]),
    },
  ]);
  return (
    <>
      <Picture
        name="ranks-grid"
        label={labelOf(props)}
        draw={(pen, now, colours) => {
          if (now.width !== size.width || now.height !== size.height) setSize(now);
          drawGrid(pen, now, colours, { grid, ...shown, chosen });
        }}
        on={{
          onPointerMove: (event) => {
            const at = cellAt(grid, size, event.offsetX, event.offsetY);
            setChosen(at);
            if (at === null) return hideTip();
            tip(event, props, at, 1);
          },
          onPointerLeave: () => {
            setChosen(null);
            hideTip();
          },
          onClick: (event) => {
            const at = cellAt(grid, size, event.offsetX, event.offsetY);
            if (at !== null) openRank(answer.ranks[at]);
          },
        }}
      />
      <ChosenRank props={props} rank={chosen ?? undefined} />
    </>
  );
}

/** The rank chosen by the keys, for screen readers. */
function ChosenRank({ props, rank }: { props: RankPictureProps; rank: number | undefined }) {
  const shown = props.answer.ranks[rank ?? -1];
  const bytes = props.line ? (props.line.bytes[rank ?? -1] ?? 0) : (shown?.peak ?? 0);
  const node = props.answer.nodes[shown?.node ?? -1];
  return (
    <p class="unseen" aria-live="polite">
      {shown && `${rankName(shown)}${node ? ` on ${node}` : ""}: ${formatBytes(bytes)}`}
    </p>
  );
}

function tip(event: PointerEvent, { answer, line }: RankPictureProps, at: number, count: number) {
  const rank = answer.ranks[at];
  if (!rank) return hideTip();
  const node = answer.nodes[rank.node ?? -1];
  const rows: [string, string][] = [
    ["Allocated peak", formatBytes(rank.peak)],
    ["Reserved peak", rank.reserved_peak === null ? "–" : formatBytes(rank.reserved_peak)],
    ["At the end", formatBytes(rank.end)],
  ];
  if (line) rows.unshift([line.location, formatBytes(line.bytes[at] ?? 0)]);
  if (node) rows.push(["Node", `${node}, local rank ${rank.local_rank}`]);
  showTip(
    event.clientX,
    event.clientY,
    <>
      <p class="title">{rankName(rank)}</p>
      {count > 1 && <p class="quiet">the highest, or the one that stands out, of {count}</p>}
      <TipRows rows={rows} />
      {rank.is_outlier && <p>{outlierSentence(rank, answer.median ?? 0)}</p>}
      <p class="quiet">A click opens it in the timeline</p>
    </>,
  );
}

export function openRank(rank: Rank | undefined): void {
  if (!rank) return;
  const { trace, device } = rank;
  go({ view: "timeline", trace, device, from: null, to: null, at: null });
}
