"""`pytorch_mem_tracer`: which lines held device memory when a section stood highest.

    import floodmark_compat.pytorch_mem_tracer as mem_tracer

    mem_tracer.switch_allocator()
    mem_tracer.start_tracing()
    model(args)
    mem_tracer.stop_tracing()
    mem_tracer.report_stats()

What differs, and why it is better:

- No allocator is switched and no library is built. With torch's own caching allocator in place, the
  program runs as it always does, and the numbers are those of `torch.cuda.memory_stats()`. The
  original sends every request to `cudaMalloc`, so it measures another program, and a slow one.
- No line is stepped. The stack is read when something is allocated, so a section may be long.
- Allocations of the backward pass stand at the forward line that caused them, marked `backward`;
  they come from threads without Python lines: the original gives them to the line that ran last.
- What was there before `start_tracing` is `untraced`, also without `switch_allocator`. `Total mem
  allocated` is that and all that was allocated since.
- The CPU is traced where there is no CUDA. `report_stats` takes a `device`, and with `top` the
  number of rows.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from floodmark import _core
from floodmark.recording.recorder import Recorder, say, trace

if TYPE_CHECKING:
    from floodmark.reports import answer_types
    from floodmark.reports.trace import DeviceLike

__all__ = ["report_stats", "start_tracing", "stop_tracing", "switch_allocator"]

_UNITS = ("B", "KB", "MB", "GB", "TB")
_UNTRACED = "before recording"
_TOTALS = ("Max mem", "Total mem allocated")
_TITLES = "Mem, Cumulative Mem, Median, Count, Location"

_recording: Recorder | None = None


def switch_allocator() -> None:
    """Do nothing. No allocator is switched: torch's own stays, and is what is measured."""


def start_tracing() -> None:
    """Begin to trace. What is there already will be `untraced`."""
    global _recording
    if _recording is not None:
        _recording.stop()
    _recording = trace().start()


def stop_tracing() -> None:
    """Stop tracing."""
    if _recording is not None:
        _recording.stop()


def report_stats(device: DeviceLike | None = None, *, top: int | None = None) -> None:
    """Print what was there at the peak, by line, largest first.

    `device` is a name such as `cuda:0` or a `torch.device`; by default the CUDA device with the
    highest peak, or the CPU where there is none. `top` is the number of rows; all without it.
    """
    if top is not None and top < 1:
        raise ValueError(f"top must be a positive integer, not {top}")
    if _recording is None:
        raise _core.FloodmarkError("nothing was traced: call start_tracing() first")
    stop_tracing()
    if not _recording.trace.summary()["devices"]:
        print(*(f"{title}: {_readable(0)}" for title in _TOTALS), _TITLES, sep="\n")
        return
    report = _recording.peak(device).by_line(top=top, torch_frames=True)
    for loss in report.losses:
        say(loss)
    totals = (report.allocated, _total(_recording, report.device))
    for title, total in zip(_TOTALS, totals, strict=True):
        print(f"{title}: {_readable(total)}")
    print(_TITLES)
    for row in report:
        sizes = map(_readable, (row["bytes"], row["cumulative"], row["median"]))
        print(*sizes, row["count"], _location(row), sep="  ")
    if left_out := report.to_dict()["total_rows"] - len(report):
        print(f"... {left_out} more")


def _total(recording: Recorder, device: str) -> int:
    """What was allocated when tracing began, and all that was allocated since."""
    [found] = [one for one in recording.trace.summary()["devices"] if one["device"] == device]
    return found["start"] + found["allocated_total"]


def _readable(count: int) -> str:
    """Four digits and a unit: `8.040 GB`."""
    power = min(max(count.bit_length() - 1, 0) // 10, len(_UNITS) - 1)
    # The alternate form keeps zeros at the end, and also a point after a fourth digit.
    return f"{count / 1024**power:#.4g}".rstrip(".") + f" {_UNITS[power]}"


def _location(row: answer_types.LineRow) -> str:
    if row["file"] is None:
        return "untraced" if row["location"] == _UNTRACED else str(row["location"])
    file = str(row["file"])
    if file.startswith(os.getcwd() + os.sep):
        file = os.path.relpath(file)
    name = str(row["function"]).rsplit(".", 1)[-1]
    return f"{file}:{row['line']} ({name})" + (" backward" if row["backward"] else "")
