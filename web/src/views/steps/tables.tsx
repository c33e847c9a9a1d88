// The steps, and the lines that grow from step to step, as tables.

import type { Leak, Steps } from "../../api/types.gen";
import { formatBytes, formatChange, formatCount } from "../../base/bytes";
import { shortener } from "../../base/paths";
import { formatDuration, formatSeconds } from "../../base/seconds";
import { capital, phaseName } from "../../base/sentences";
import { go, secondsField } from "../../model/address";
import { Empty } from "../../render/notices";
import { type Column, Table } from "../../render/table";
import { phaseNames } from "./bars";
import type { Step } from "./words";

export function StepTable({
  steps,
  onPick,
}: {
  steps: readonly Step[];
  onPick: (step: Step) => void;
}) {
  return <Table name="steps" columns={stepColumns(steps)} rows={steps} onPick={onPick} />;
}

function stepColumns(steps: readonly Step[]): Column<Step>[] {
  const highest = Math.max(1, ...steps.map((step) => step.peak));
  const bytes = (name: string, title: string, of: (step: Step) => number | null): Column<Step> => ({
    name,
    title,
    isNumber: true,
    value: of,
    cell: (step) => {
      const value = of(step);
      return value === null ? "" : formatBytes(value);
    },
  });
  return [
    {
      name: "number",
      title: "Step",
      isNumber: true,
      width: steps.at(-1)?.is_finished === false ? "120px" : "70px",
      value: (step) => step.number,
      cell: (step) => (step.is_finished ? step.number : `${step.number}, not finished`),
    },
    {
      name: "from",
      title: "From",
      isNumber: true,
      value: (step) => step.from,
      cell: (step) => formatSeconds(step.from),
    },
    {
      name: "took",
      title: "Took",
      isNumber: true,
      value: (step) => step.to - step.from,
      cell: (step) => formatDuration(step.to - step.from),
    },
    { ...bytes("peak", "Peak", (step) => step.peak), bar: (step) => step.peak / highest },
    bytes("end", "End", (step) => step.end),
    {
      ...bytes("growth", "Growth", (step) => step.growth),
      cell: (step) => (step.growth === null ? "" : formatChange(step.growth)),
    },
    ...phaseNames(steps).map((name) =>
      bytes(
        `phase ${name}`,
        `${capital(phaseName(name))} peak`,
        (step) => step.phases.find((phase) => phase.name === name)?.peak ?? null,
      ),
    ),
  ];
}

export function SuspectTable({ answer }: { answer: Steps }) {
  if (!answer.leaks)
    return (
      <Empty>
        <p>Lines that grow from step to step show after a few steps: record more of them.</p>
      </Empty>
    );
  if (answer.leaks.rows.length === 0)
    return (
      <Empty>
        <p>Nothing here looks like a leak.</p>
      </Empty>
    );
  const open = (leak: Leak) => {
    const since = answer.steps.find((step) => step.number >= leak.since);
    const end = answer.steps.at(-1);
    go({
      view: "timeline",
      by: "line",
      from: since ? secondsField(since.from) : null,
      to: end ? secondsField(end.to) : null,
    });
  };
  return (
    <Table
      name="suspects"
      columns={suspectColumns(answer.leaks.rows)}
      rows={answer.leaks.rows}
      onPick={open}
    />
  );
}

function suspectColumns(leaks: readonly Leak[]): Column<Leak>[] {
  const short = shortener(leaks.map((leak) => leak.location));
  const most = Math.max(1, ...leaks.map((leak) => leak.bytes_per_step));
  return [
    {
      name: "per_step",
      title: "Growth per step",
      isNumber: true,
      width: "130px",
      value: (leak) => leak.bytes_per_step,
      cell: (leak) => formatChange(leak.bytes_per_step),
      bar: (leak) => leak.bytes_per_step / most,
    },
    {
      name: "growth",
      title: "Gained",
      isNumber: true,
      width: "110px",
      value: (leak) => leak.growth,
      cell: (leak) => formatChange(leak.growth),
    },
    {
      name: "count",
      title: "Blocks",
      isNumber: true,
      width: "80px",
      value: (leak) => leak.count,
      cell: (leak) => (leak.count > 0 ? `+${formatCount(leak.count)}` : formatCount(leak.count)),
    },
    {
      name: "since",
      title: "Since step",
      isNumber: true,
      width: "95px",
      value: (leak) => leak.since,
    },
    {
      name: "grew",
      title: "Grew in",
      width: "150px",
      value: (leak) => leak.grew,
      cell: (leak) => `${leak.grew} of ${leak.steps} steps`,
    },
    { name: "category", title: "Category", width: "110px", value: (leak) => leak.category },
    {
      name: "location",
      title: "Location",
      value: (leak) => leak.location,
      isLocation: true,
      cell: (leak) => short(leak.location),
      hint: (leak) => [leak.location, leak.module].filter(Boolean).join("\n"),
      searched: (leak) => [leak.location, leak.module].join(" "),
    },
  ];
}
