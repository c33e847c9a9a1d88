// What filled the device at a moment: the report as a table.

import type { Report, Row } from "../../api/types.gen";
import { formatBytes, formatCount } from "../../base/bytes";
import { shortPath } from "../../base/paths";
import { momentSentence } from "../../base/sentences";
import { cursor } from "../../model/place";
import { subject } from "../../model/recording";
import { useAnswer } from "../../model/use_answer";
import { Answered } from "../../render/notices";
import { type Column, Table } from "../../render/table";
import type { View } from "../view";

function Peak() {
  const report = useAnswer(() => {
    const about = subject.value;
    if (!about) return null;
    const { trace, device, revision } = about;
    return {
      path: "report",
      query: { trace, device, by: "line", at: cursor.value, top: 5000 },
      revision,
    };
  });
  return <Answered asked={report.value}>{(value) => <Shown report={value} />}</Answered>;
}

function Shown({ report }: { report: Report }) {
  return (
    <div class="peak">
      <p>{momentSentence({ ...report, ...report.at })}</p>
      <Table name="report by line" columns={columns(report)} rows={report.rows} />
    </div>
  );
}

function columns(report: Report): Column<Row>[] {
  return [
    {
      name: "bytes",
      title: "Bytes",
      isNumber: true,
      width: "110px",
      value: (row) => row.bytes,
      cell: (row) => formatBytes(row.bytes),
      bar: (row) => row.bytes / report.allocated,
    },
    {
      name: "count",
      title: "Count",
      isNumber: true,
      width: "80px",
      value: (row) => row.count,
      cell: (row) => formatCount(row.count),
    },
    {
      name: "where",
      title: "Where",
      value: (row) => row.where,
      cell: (row) => shortPath(row.where),
      hint: (row) => row.where,
    },
  ];
}

export const peak: View = {
  name: "peak",
  title: "Peak",
  key: "2",
  says: "what filled the device at a moment",
  component: Peak,
};
