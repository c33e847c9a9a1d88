// Source files with the bytes beside their lines, at the chosen time.

import type { AnnotatedFile, SourceFileBytes, SourceFiles } from "../../api/types.gen";
import { counted, formatBytes, formatShare } from "../../base/bytes";
import { shortener } from "../../base/paths";
import { capital, momentSentence } from "../../base/sentences";
import { cursor, field, go } from "../../model/address";
import { subject } from "../../model/recording";
import { useDeviceAnswer } from "../../model/use_answer";
import { ChangeText } from "../../render/change_text";
import { MomentButtons, MomentStrip, Nearest } from "../../render/moments";
import { Answered, Empty } from "../../render/notices";
import { type Column, Table } from "../../render/table";
import type { View } from "../view";
import { Code } from "./code";
import "./source.css";

/** The shown file; by default the one of the program with the most bytes. */
const fileField = field("file");

function SourceView() {
  const answer = useDeviceAnswer("source/files", () => ({ at: cursor.value }), { delayMillis: 80 });
  return <Answered asked={answer.value}>{(value) => <Shown found={value} />}</Answered>;
}

function Shown({ found }: { found: SourceFiles }) {
  const file = fileField.value || firstFile(found.files);
  const { at, allocated } = found;
  return (
    <div class="source">
      <div class="view-tools">
        <MomentButtons />
        <p>
          {momentSentence({
            ...at,
            allocated,
            device: subject.value?.device ?? "",
            reserved: null,
          })}
          <Nearest seconds={at.seconds} />
        </p>
      </div>
      <div class="panel source-strip">
        <MomentStrip seconds={at.seconds} />
      </div>
      <div class="panel source-files">
        <Table
          name="source files"
          columns={columnsOf(found)}
          rows={found.files}
          isPicked={(row) => row.file === file}
          onPick={(row) => go({ file: row.file, line: null })}
        />
      </div>
      <div class="panel source-text">
        {file ? (
          <File key={file} file={file} />
        ) : (
          <Empty>
            <p>No line of a file has allocated bytes at this time.</p>
          </Empty>
        )}
      </div>
    </div>
  );
}

/** The program's own file with the most bytes, or else a library's. */
function firstFile(files: readonly SourceFileBytes[]): string | undefined {
  return (files.find((one) => !one.is_library) ?? files[0])?.file;
}

function columnsOf({ files, allocated }: SourceFiles): Column<SourceFileBytes>[] {
  const short = shortener(files.map((row) => row.file));
  const most = Math.max(1, ...files.map((row) => row.bytes));
  return [
    {
      name: "bytes",
      title: "Bytes",
      isNumber: true,
      width: "96px",
      value: (row) => row.bytes,
      cell: (row) => formatBytes(row.bytes),
      bar: (row) => row.bytes / most,
      hint: (row) =>
        `${formatShare(row.bytes, allocated)}, ${counted(row.count, "allocation")} of ${counted(row.lines, "line")}`,
    },
    {
      name: "file",
      title: "File",
      value: (row) => row.file,
      isLocation: true,
      cell: (row) => short(row.file),
      hint: (row) => (row.is_stored ? `${row.file}, stored in the trace` : row.file),
    },
  ];
}

function File({ file }: { file: string }) {
  const answer = useDeviceAnswer("source", () => ({ at: cursor.value, file }), { delayMillis: 80 });
  return (
    <Answered asked={answer.value}>
      {(value) => (
        <>
          <Head found={value} />
          <Code found={value} />
        </>
      )}
    </Answered>
  );
}

function Head({ found }: { found: AnnotatedFile }) {
  const { annotation } = found;
  const notes = [...annotation.notes, ...(found.missing ? [found.missing] : [])];
  const share = formatShare(annotation.in_file, annotation.allocated);
  return (
    <header class="source-head">
      <h2 title={annotation.file}>
        <bdi>{annotation.file}</bdi>
      </h2>
      <p>
        {formatBytes(annotation.in_file)} in {counted(annotation.lines.length, "line")}, {share} of
        what is allocated
        {found.is_stored && <span class="quiet"> · the copy in the trace</span>}
      </p>
      {notes.map((note) => (
        <p key={note} class="source-note">
          <ChangeText text={capital(note)} />
        </p>
      ))}
    </header>
  );
}

export const sourceView: View = {
  name: "source",
  title: "Source",
  key: "s",
  hint: "source files with the bytes beside their lines",
  component: SourceView,
};
