// The results of `page.mjs` as a page of text.

const number = (value, digits = 1) =>
  value === undefined || Number.isNaN(value)
    ? "–"
    : value.toLocaleString("en-US", {
        minimumFractionDigits: digits,
        maximumFractionDigits: digits,
      });
const share = (value) => (value === undefined ? "–" : `${number(value * 100)} %`);

function line(row, name, found) {
  const cells = [
    `${row.name}, ${number(row.megabytes, 0)} MB`,
    name,
    number(found.ready_seconds, 2),
    found.first_millis === undefined ? "none" : number(found.first_millis / 1000, 2),
  ];
  for (const way of ["drag", "wheel"]) {
    const frames = found[way] ?? {};
    cells.push(
      [frames.median_millis, frames.p95_millis, frames.longest_millis]
        .map((one) => number(one))
        .join(" / "),
      share(frames.late_share),
    );
  }
  cells.push(number(found.drag?.busy_millis));
  return `| ${cells.join(" | ")} |`;
}

function failures(rows) {
  return rows
    .filter((row) => row.torch?.errors.length > 0)
    .map(
      (row) =>
        `- torch's page of “${row.name}”: no picture; ${[...new Set(row.torch.errors)].join("; ")}`,
    );
}

function verdicts(rows) {
  const met = (text, value, limit) =>
    `- ${text}: ${number(value, 1)} (budget ${limit}): ${value <= limit ? "met" : "missed"}`;
  const frames = rows.map(({ name, floodmark }) =>
    met(
      `${name}: milliseconds from frame to frame, median while dragged`,
      floodmark.drag.median_millis,
      16.7,
    ),
  );
  const [{ name, floodmark }] = rows;
  return [
    met(`${name}: seconds to the first picture`, floodmark.first_millis / 1000, 2),
    ...frames,
  ];
}

export function render({ about, rows }) {
  const head =
    "| file | page | ready, s | first picture, s | dragged, ms | late | wheel, ms | late | busy, ms |";
  return [
    "# The page",
    "",
    `${about.cpu}, ${about.cores} cores (load ${number(about.load)}), ${about.chromium}, headless and drawing in software, ` +
      `Node ${about.node}, torch ${about.torch}, ${about.floodmark}, ${about.date}`,
    "",
    head,
    "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ...rows.flatMap((row) => [
      line(row, "floodmark", row.floodmark),
      ...(row.torch ? [line(row, "torch", row.torch)] : []),
    ]),
    "",
    "*Ready*: until `floodmark view` printed its address, or `python -m torch.cuda._memory_viz trace_plot` had written its page.",
    "*First picture*: from the navigation on; floodmark's is complete then, with all that it waits for. *Dragged*, *wheel*:",
    `milliseconds from frame to frame, median / 95th percentile / longest, while real events of the mouse come for ${about.seconds} s, about one a frame;`,
    "*late*: the share of frames that came later than a sixtieth of a second after the one before. *Busy*: how long",
    "the page's thread was at work for a frame while it was dragged.",
    `Each is the best of ${about.times} runs, for both pages alike.`,
    ...(about.note ? [about.note] : []),
    "torch's page is as torch writes it; what it loads from other hosts was answered from disk.",
    "",
    ...verdicts(rows),
    ...failures(rows),
    "",
  ].join("\n");
}
