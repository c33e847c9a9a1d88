// The peaks of all recordings side by side, and which of them stand out.

import { useMemo, useState } from "preact/hooks";
import type { Rank, Ranks as RanksAnswer } from "../../api/types.gen";
import { counted, formatBytes, formatShare } from "../../base/bytes";
import { go } from "../../model/address";
import { traces } from "../../model/recording";
import { useAnswer } from "../../model/use_answer";
import { Link } from "../../render/link";
import { Answered, Empty } from "../../render/notices";
import type { Size } from "../../render/pen";
import { Picture } from "../../render/picture";
import { type Column, Table } from "../../render/table";
import { hideTip, showTip, TipRows } from "../../render/tooltip";
import { useBarKeys } from "../../render/use_bar_keys";
import type { View } from "../view";
import { fromMedian, rankBars } from "./bars";
import { drawRanks, rankAt, rankPlot } from "./draw";
import "./ranks.css";

/** So many ranks that stand out are named above the picture; the table marks all. */
const MOST_OUTLIERS = 3;

function Ranks() {
  const ranks = useAnswer(() => {
    const all = traces.value?.traces ?? [];
    if (all.length < 2) return null;
    return { path: "ranks", query: {}, revision: all.reduce((sum, one) => sum + one.revision, 0) };
  });
  if ((traces.value?.traces.length ?? 0) < 2)
    return (
      <Empty>
        <p>There is one recording only; ranks are compared where there are several.</p>
        <p>
          <code>floodmark view FOLDER</code> shows all recordings of a folder, one for each rank.
        </p>
      </Empty>
    );
  return <Answered asked={ranks.value}>{(answer) => <Shown answer={answer} />}</Answered>;
}

function Shown({ answer }: { answer: RanksAnswer }) {
  const median = answer.median ?? 0;
  const outliers = answer.ranks
    .filter((rank) => rank.is_outlier)
    .sort((one, other) => distance(other, median) - distance(one, median));
  const usual = nearestToMedian(answer.ranks, median);
  return (
    <div class="ranks">
      <div>
        <p>{sentence(answer)}</p>
        <ul class="outliers">
          {outliers.slice(0, MOST_OUTLIERS).map((rank) => (
            <li key={`${rank.trace} ${rank.device}`}>
              <b aria-hidden="true">!</b> {outlierSentence(rank, median)}{" "}
              {usual && (
                <Link
                  to={{
                    view: "diff",
                    trace: rank.trace,
                    device: null,
                    a: usual.trace,
                    b: rank.trace,
                  }}
                >
                  compare with {rankName(usual)}, nearest to the median
                </Link>
              )}
            </li>
          ))}
          {outliers.length > MOST_OUTLIERS && (
            <li class="quiet">and {outliers.length - MOST_OUTLIERS} more</li>
          )}
        </ul>
      </div>
      <Bars answer={answer} />
      <section class="panel">
        <Table
          name="ranks"
          columns={columns(answer)}
          rows={answer.ranks}
          onPick={(rank) => open(rank)}
        />
      </section>
    </div>
  );
}

function distance(rank: Rank, median: number): number {
  return Math.abs(rank.peak - median);
}

/** The rank that others are compared with. */
function nearestToMedian(ranks: readonly Rank[], median: number): Rank | undefined {
  return ranks.reduce<Rank | undefined>(
    (best, rank) => (!best || distance(rank, median) < distance(best, median) ? rank : best),
    undefined,
  );
}

function Bars({ answer }: { answer: RanksAnswer }) {
  const { ranks } = answer;
  const [size, setSize] = useState<Size>({ width: 1200, height: 300 });
  const [chosen, setChosen] = useState<number | null>(null);
  const bars = useMemo(() => rankBars(ranks, rankPlot(size).width), [ranks, size.width]);
  const picture = {
    bars,
    names: ranks.map(rankName),
    reserved: ranks.map((rank) => rank.reserved_peak),
    median: answer.median,
    chosen,
  };
  const openBar = (at: number | null) => open(ranks[bars[at ?? -1]?.shown ?? -1]);
  useBarKeys("Ranks", {
    what: "rank",
    count: bars.length,
    chosen,
    onChoose: setChosen,
    onOpen: openBar,
  });
  const shown = ranks[bars[chosen ?? -1]?.shown ?? -1];
  return (
    <div class="panel rank-picture">
      <Picture
        name="ranks"
        label={sentence(answer)}
        draw={(pen, now, colours) => {
          if (now.width !== size.width || now.height !== size.height) setSize(now);
          drawRanks(pen, now, colours, picture);
        }}
        on={{
          onPointerMove: (event) => {
            const at = rankAt(picture, size, event.offsetX);
            setChosen(at);
            const bar = at === null ? undefined : bars[at];
            const rank = bar && ranks[bar.shown];
            if (!bar || !rank) return hideTip();
            showTip(event.clientX, event.clientY, tip(rank, answer, bar.last - bar.first + 1));
          },
          onPointerLeave: () => {
            setChosen(null);
            hideTip();
          },
          onClick: (event) => openBar(rankAt(picture, size, event.offsetX)),
        }}
      />
      <p class="unseen" aria-live="polite">
        {shown && `${rankName(shown)}: ${formatBytes(shown.peak)}`}
      </p>
    </div>
  );
}

function tip(rank: Rank, answer: RanksAnswer, ranks: number) {
  const rows: [string, string][] = [
    ["Allocated peak", formatBytes(rank.peak)],
    ["Reserved peak", rank.reserved_peak === null ? "–" : formatBytes(rank.reserved_peak)],
    ["At the end", formatBytes(rank.end)],
  ];
  return (
    <>
      <p class="title">{rankName(rank)}</p>
      {ranks > 1 && <p class="quiet">the highest, or the one that stands out, of {ranks}</p>}
      <TipRows rows={rows} />
      {rank.is_outlier && <p>{outlierSentence(rank, answer.median ?? 0)}</p>}
      <p class="quiet">A click opens it in the timeline</p>
    </>
  );
}

function sentence(answer: RanksAnswer): string {
  const { ranks, median } = answer;
  if (ranks.length === 0 || median === null) return "Nothing was allocated in these recordings.";
  const lowest = ranks.reduce((one, other) => (other.peak < one.peak ? other : one));
  const highest = ranks.reduce((one, other) => (other.peak > one.peak ? other : one));
  const count = ranks.filter((rank) => rank.is_outlier).length;
  const out = count === 0 ? "none stands out" : counted(count, "stands out", "stand out");
  return `${counted(ranks.length, "peak")}, from ${formatBytes(lowest.peak)} (${rankName(lowest)}) to ${formatBytes(highest.peak)} (${rankName(highest)}); the median is ${formatBytes(median)}; ${out}.`;
}

function outlierSentence(rank: Rank, median: number): string {
  const { bytes, side } = fromMedian(rank.peak, median);
  return `${rankName(rank)} stands out: ${formatBytes(rank.peak)} is ${formatBytes(bytes)} (${formatShare(bytes, median)}) ${side} the median.`;
}

function rankName(rank: Rank): string {
  const name = rank.rank === null ? rank.name : `rank ${rank.rank}`;
  return rank.device === "cuda:0" || rank.device === "cpu" ? name : `${name}, ${rank.device}`;
}

function open(rank: Rank | undefined): void {
  if (!rank) return;
  const { trace, device } = rank;
  go({ view: "timeline", trace, device, from: null, to: null, at: null });
}

function columns(answer: RanksAnswer): Column<Rank>[] {
  const highest = Math.max(1, ...answer.ranks.map((rank) => rank.peak));
  const median = answer.median ?? 0;
  return [
    {
      name: "rank",
      title: "Rank",
      isNumber: true,
      width: "80px",
      value: (rank) => rank.rank,
    },
    {
      name: "peak",
      title: "Allocated peak",
      isNumber: true,
      width: "160px",
      value: (rank) => rank.peak,
      cell: (rank) => formatBytes(rank.peak),
      bar: (rank) => rank.peak / highest,
    },
    {
      name: "from_median",
      title: "From the median",
      isNumber: true,
      width: "160px",
      value: (rank) => rank.peak - median,
      cell: (rank) => {
        const { bytes, side } = fromMedian(rank.peak, median);
        const text = bytes === 0 ? "0 B" : `${formatBytes(bytes)} ${side}`;
        return rank.is_outlier ? <b class="grew">! {text}</b> : text;
      },
    },
    {
      name: "reserved",
      title: "Reserved peak",
      isNumber: true,
      width: "130px",
      value: (rank) => rank.reserved_peak,
      cell: (rank) => (rank.reserved_peak === null ? "" : formatBytes(rank.reserved_peak)),
    },
    {
      name: "end",
      title: "At the end",
      isNumber: true,
      width: "120px",
      value: (rank) => rank.end,
      cell: (rank) => formatBytes(rank.end),
    },
    { name: "device", title: "Device", width: "90px", value: (rank) => rank.device },
    { name: "name", title: "Recording", value: (rank) => rank.name, hint: (rank) => rank.name },
  ];
}

export const ranks: View = {
  name: "ranks",
  title: "Ranks",
  key: "9",
  says: "the peak of each rank, and which stand out",
  component: Ranks,
};
