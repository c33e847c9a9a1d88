// Memory at the failed allocation as one bar, with the request below it and the limit across both.

import type { OomReport } from "../../api/types.gen";
import { counted, formatBytes } from "../../base/bytes";
import { memoryBar, type PartName } from "./memory_bar";

const NAMES: Readonly<Record<PartName, string>> = {
  allocated: "allocated",
  pending: "pending free: a stream still uses it",
  usable: "free in torch's segments, in the request's pool and stream",
  other: "free in other segments of torch",
  room: "not reserved",
  outside: "outside torch, with the CUDA context",
};

export function MemoryAtFailure({ report }: { report: OomReport }) {
  const bar = memoryBar(report);
  const percent = (bytes: number) => `${(100 * bytes) / bar.end}%`;
  const span = ({ from, to }: { readonly from: number; readonly to: number }) => ({
    left: percent(from),
    width: percent(to - from),
  });
  const limit = bar.limit;
  return (
    <figure class="panel oom-memory" aria-label={description(report)} role="img">
      <div class="oom-bars" aria-hidden="true">
        <div class="oom-bar">
          {bar.parts.map((part) => (
            <i
              key={part.name}
              class={part.name}
              style={span(part)}
              title={`${NAMES[part.name]}: ${formatBytes(part.to - part.from)}`}
            />
          ))}
        </div>
        <div class="oom-bar">
          <i class="request" style={span(bar.request)} />
          <span class="request-name" style={requestNameAt(bar.request, bar.end)}>
            requested: {formatBytes(report.at.request?.bytes ?? 0)}
          </span>
        </div>
        {limit !== null && (
          <div
            class={`oom-limit ${limit > bar.end / 2 ? "right" : ""}`}
            style={{ left: percent(limit) }}
          >
            <span>
              {report.is_own_limit ? "limit set by the program" : "limit"}: {formatBytes(limit)}
            </span>
          </div>
        )}
      </div>
      <ul class="oom-legend" aria-hidden="true">
        {bar.parts.map((part) => (
          <li key={part.name}>
            <i class={`swatch ${part.name}`} />
            <b>{formatBytes(part.to - part.from)}</b> <span class="quiet">{NAMES[part.name]}</span>
          </li>
        ))}
        <li>
          <i class="swatch request" />
          <b>{formatBytes(bar.request.to - bar.request.from)}</b>{" "}
          <span class="quiet">
            {report.segment === null ? "requested" : "segment that torch requested from the driver"}
          </span>
        </li>
      </ul>
    </figure>
  );
}

/** The name is on the side of the request that has more space. */
function requestNameAt(request: { readonly from: number; readonly to: number }, end: number) {
  return request.from > end / 2
    ? { right: `${100 - (100 * request.from) / end}%` }
    : { left: `${(100 * request.to) / end}%` };
}

function description(report: OomReport): string {
  const reserved = report.reserved === null ? "" : `, ${formatBytes(report.reserved)} reserved`;
  const blocks =
    report.free_blocks > 0
      ? ` in ${counted(report.free_blocks, "block")}, the largest ${formatBytes(report.largest_free)}`
      : "";
  const rest = report.unreserved === null ? "" : `, ${formatBytes(report.unreserved)} not reserved`;
  const limit = report.limit === null ? "" : `; limit ${formatBytes(report.limit)}`;
  return (
    `Memory at the failed allocation: ${formatBytes(report.allocated)} allocated${reserved}, ` +
    `${formatBytes(report.free)} free in torch's segments${blocks}${rest}${limit}; ` +
    `${formatBytes(report.at.request?.bytes ?? 0)} requested`
  );
}
