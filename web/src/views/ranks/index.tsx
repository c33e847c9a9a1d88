// The peaks of all ranks side by side, the outliers, and the lines of the program that differ.

import type { RankLine, Ranks as RanksAnswer } from "../../api/types.gen";
import { counted } from "../../base/bytes";
import { field, go } from "../../model/address";
import { areSeveral, traces } from "../../model/recording";
import { useAnswer } from "../../model/use_answer";
import { Choices } from "../../render/choices";
import { Link } from "../../render/link";
import { Answered } from "../../render/notices";
import { Table } from "../../render/table";
import type { View } from "../view";
import { lineColumns, rankColumns } from "./columns";
import { openRank, RankBars, RankGrid } from "./pictures";
import { outlierSentence, rankName, sentence } from "./words";
import "./ranks.css";

/** The number of outliers that are listed above the picture before a click shows all. */
const MOST_OUTLIERS = 3;
/** With more ranks than this, the default picture is a grid. */
const MOST_BARS = 64;

const pictureField = field("ranks");
const rowsField = field("rows", "ranks");
const lineField = field("line");
const outliersField = field("outliers");

function revision(): number {
  return (traces.value?.traces ?? []).reduce((sum, one) => sum + one.revision, 0);
}

function Ranks() {
  const ranks = useAnswer(() => ({ path: "ranks", query: {}, revision: revision() }));
  return <Answered asked={ranks.value}>{(answer) => <Shown answer={answer} />}</Answered>;
}

function Shown({ answer }: { answer: RanksAnswer }) {
  // Requested only when shown: the server has to read every rank.
  const lines = useAnswer(() =>
    rowsField.value === "lines" || lineField.value !== ""
      ? { path: "ranks/lines", query: {}, revision: revision() }
      : null,
  );
  const line = lines.value.value?.lines.find((one) => one.location === lineField.value) ?? null;
  const isGrid = (pictureField.value || defaultPicture(answer)) === "grid";
  const picture = { answer, line };
  const choose = (
    <Choices
      label="Rows"
      all={[
        ["ranks", "Ranks"],
        ["lines", "Lines that differ"],
      ]}
      chosen={rowsField.value === "lines" ? "lines" : "ranks"}
      onChoose={(rows) => go({ rows: rows === "ranks" ? null : rows })}
    />
  );
  return (
    <div class="ranks">
      <div class="ranks-head">
        <div>
          <p>{sentence(answer)}</p>
          <Outliers answer={answer} />
        </div>
        <Choices
          label="Picture"
          all={[
            ["bars", "Bars"],
            ["grid", "Grid"],
          ]}
          chosen={isGrid ? "grid" : "bars"}
          onChoose={(chosen) => go({ ranks: chosen })}
        />
      </div>
      <div class="panel rank-picture">
        {line && <LineShown line={line} />}
        {isGrid ? <RankGrid {...picture} /> : <RankBars {...picture} />}
      </div>
      <section class="panel">
        {rowsField.value === "lines" ? (
          <Answered asked={lines.value}>
            {(found) => (
              <Table
                name="lines"
                columns={lineColumns(answer)}
                rows={found.lines}
                isPicked={(one) => one.location === lineField.value}
                onPick={(one) =>
                  go({ line: one.location === lineField.value ? null : one.location })
                }
              >
                {choose}
                <span class="quiet">{linesSentence(found)}</span>
              </Table>
            )}
          </Answered>
        ) : (
          <Table
            name="ranks"
            columns={rankColumns(answer)}
            rows={answer.ranks}
            onPick={(rank) => openRank(rank)}
          >
            {choose}
          </Table>
        )}
      </section>
    </div>
  );
}

function defaultPicture(answer: RanksAnswer): string {
  return answer.ranks.length > MOST_BARS ? "grid" : "bars";
}

/** The line that the picture shows, with a button back to the peaks. */
function LineShown({ line }: { line: RankLine }) {
  return (
    <p class="line-shown">
      <code>{line.location}</code>
      <button type="button" class="plain" onClick={() => go({ line: null })}>
        Show the peaks
      </button>
    </p>
  );
}

function linesSentence(found: { same: number; total: number; lines: readonly unknown[] }): string {
  const same = `${counted(found.same, "line is", "lines are")} the same on every rank`;
  const shown = found.lines.length < found.total ? ` of ${found.total}` : "";
  return `${counted(found.lines.length, "line")}${shown} with other bytes at the peak; ${same}`;
}

/** The outliers, the furthest from the median first. */
function Outliers({ answer }: { answer: RanksAnswer }) {
  const { outliers, ranks } = answer;
  const median = answer.median ?? 0;
  const usual = ranks[answer.nearest ?? -1];
  const shown = outliersField.value === "all" ? outliers : outliers.slice(0, MOST_OUTLIERS);
  const rest = outliers.length - shown.length;
  if (outliers.length === 0) return null;
  return (
    <>
      <ul class="outliers" aria-label="Ranks that stand out">
        {shown.map((at) => {
          const rank = ranks[at];
          if (!rank) return null;
          const to = {
            view: "diff",
            trace: rank.trace,
            device: null,
            a: usual?.trace,
            b: rank.trace,
          };
          return (
            <li key={at}>
              <b aria-hidden="true">!</b> {outlierSentence(rank, median)}{" "}
              {usual && usual.trace !== rank.trace && (
                <Link to={to}>compare with the median rank ({rankName(usual)})</Link>
              )}
            </li>
          );
        })}
      </ul>
      {rest > 0 && (
        <button type="button" class="plain" onClick={() => go({ outliers: "all" })}>
          {rest} more
        </button>
      )}
      {outliersField.value === "all" && outliers.length > MOST_OUTLIERS && (
        <button type="button" class="plain" onClick={() => go({ outliers: null })}>
          Only the first {MOST_OUTLIERS}
        </button>
      )}
    </>
  );
}

export const ranks: View = {
  name: "ranks",
  title: "Ranks",
  key: "9",
  hint: "the peak of each rank, and which stand out",
  component: Ranks,
  isThere: () => areSeveral.value,
};
