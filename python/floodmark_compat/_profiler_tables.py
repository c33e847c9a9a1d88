"""The tables that `floodmark_compat.memory_profiler` prints, as lines of text.

Sees: a trace, and what the tracer noted of phases and forward passes. All figures are those of the
trace's own answers; here they are put into columns. A megabyte is 1024 x 1024 bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from floodmark.reports.trace import Trace

_MB = 1024**2
_OPERATORS = 25


@dataclass
class Phase:
    """How often a phase was tracked, and the bytes when it last began and ended."""

    times: int = 0
    began: int = 0
    ended: int = 0


@dataclass
class Forward:
    """How often a module ran forward, and the most bytes that one call left allocated."""

    calls: int = 0
    kept: int = 0


def devices(levels: Mapping[str, tuple[int, int]]) -> Iterator[str]:
    """The peak and the present of each device."""
    rows = [[_mb(peak), _mb(now), device] for device, (now, peak) in levels.items()]
    yield from _table("Memory per device", ["Peak MB", "Current MB", "Device"], rows)


def phases(
    trace: Trace | None, device: str, tracked: Mapping[str, Phase], peaks: Mapping[str, int]
) -> Iterator[str]:
    """What each phase allocated that was live at the peak and at the end, and its own peak."""
    peak = _bytes_by(trace, "phase", "peak", device)
    end = _bytes_by(trace, "phase", "end", device)
    rows = []
    for name in dict.fromkeys([*tracked, *peak, *end]):
        phase = tracked.get(name)
        noted = ["-", "-", "-", "-"]
        if phase is not None:
            own = _mb(peaks[name]) if name in peaks else "-"
            noted = [own, _mb(phase.began), _mb(phase.ended), str(phase.times)]
        rows.append([_mb(peak.get(name, 0)), _mb(end.get(name, 0)), *noted, name])
    head = ["At peak MB", "At end MB", "Peak MB", "Before MB", "After MB", "Times", "Phase"]
    yield from _table("Memory per phase", head, rows)


def modules(trace: Trace, device: str, *, is_whole: bool) -> Iterator[str]:
    """The tree of modules at the peak; only its roots unless it is to be whole."""
    rows = []
    for row in trace.peak(device).by_module():
        if is_whole or row["depth"] == 0:
            name = "  " * row["depth"] + row["location"]
            kind = f" ({row['class_name']})" if row["class_name"] else ""
            rows.append([_mb(row["bytes"]), _mb(row["own"]), str(row["count"]), name + kind])
    head = ["At peak MB", "Own MB", "Tensors", "Module"]
    yield from _table("Memory per module", head, rows)


def forwards(noted: Mapping[str, Forward]) -> Iterator[str]:
    """What the forward passes of modules with hooks left allocated."""
    rows = [[_mb(each.kept), str(each.calls), name] for name, each in noted.items()]
    yield from _table("Forward passes", ["Kept MB", "Calls", "Module"], rows)


def operators(trace: Trace, device: str) -> Iterator[str]:
    """The operators that made most of what was there at the peak."""
    found = trace.report(by="op", at="peak", device=device, top=_OPERATORS)
    rows = [[_mb(row["bytes"]), str(row["count"]), row["location"]] for row in found]
    left_out = found.to_dict()["total_rows"] - len(rows)
    more = f"Memory per operator (the largest; {left_out} more)"
    title = more if left_out else "Memory per operator"
    yield from _table(title, ["At peak MB", "Tensors", "Operator"], rows)


def tensors(trace: Trace, device: str) -> Iterator[str]:
    """How many tensors were made, and of what kind those at the peak were."""
    made = {each["device"]: each["allocations"] for each in trace.summary()["devices"]}
    peak = trace.report(by="category", at="peak", device=device, top=None)
    end_rows = trace.report(by="category", at="end", device=device, top=None)
    end = {row["location"]: row for row in end_rows}
    rows = []
    for row in peak:
        later = end.pop(row["location"], {"bytes": 0, "count": 0})
        rows.append(_kind(row["location"], row, later))
    rows += [_kind(name, {"bytes": 0, "count": 0}, row) for name, row in end.items()]
    head = ["At peak MB", "Tensors", "At end MB", "Tensors", "Kind"]
    yield from _table(f"Tensors ({made.get(device, 0)} created)", head, rows)


def _kind(name: str, peak: Mapping[str, Any], end: Mapping[str, Any]) -> list[str]:
    return [_mb(peak["bytes"]), str(peak["count"]), _mb(end["bytes"]), str(end["count"]), name]


def _bytes_by(trace: Trace | None, by: str, at: str, device: str) -> dict[str, int]:
    if trace is None:
        return {}
    rows = trace.report(by=by, at=at, device=device, top=None)
    return {row["location"]: row["bytes"] for row in rows}


def _mb(count: int) -> str:
    return f"{count / _MB:.2f}"


def _table(title: str, head: list[str], rows: list[list[str]]) -> Iterator[str]:
    """A title, a head and rows; numbers stand right, the last column is the name."""
    if not rows:
        return
    lines = [head, *rows]
    widths = [max(len(line[at]) for line in lines) for at in range(len(head) - 1)]
    yield ""
    yield title
    for line in lines:
        numbers = (text.rjust(width) for text, width in zip(line[:-1], widths, strict=True))
        yield "  ".join([*numbers, line[-1]])
