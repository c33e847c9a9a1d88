"""The memory of the recorder in a program, compared with `--max-memory`.

    python bench/recorder_memory.py

Each case is work that makes one kind of thing that the recorder has to remember. It runs in a child
process without the recorder, and in one for each limit. A child measures itself when its work holds
most: its anonymous and shared memory, and the mapped files of the journal. That, less what the
child without the recorder has, is what the recorder holds. Pages of libraries do not count: they
are those of a file, and the system drops them when it needs memory. Children are forked before any
thread runs, so that all begin with the same memory.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import machine

MIB = 1 << 20
LIMITS_MIB = (16, 32, 64, 256)
#: Called by a case at its peak.
Measure = Callable[[], None]


def functions(scale: float, measure: Measure) -> None:
    """Each call is a function of its own, with a file name of its own."""
    import torch

    for number in range(int(20_000 * scale)):
        code = compile("torch.empty(10)", f"/a/folder/with/a/long/name/{number}.py", "exec")
        exec(code, {"torch": torch})
    measure()


def texts(scale: float, measure: Measure) -> None:
    """Each phase has a name of its own."""
    import torch

    import floodmark

    for number in range(int(50_000 * scale)):
        with floodmark.phase(f"a phase with a name of some length {number}"):
            torch.empty(10)
    measure()


def threads(scale: float, measure: Measure) -> None:
    """All threads are alive at the same time."""
    import torch

    count = int(300 * scale)
    barrier = threading.Barrier(count + 1)
    is_measured = threading.Event()

    def work() -> None:
        for _ in range(20):
            torch.empty(10)
        barrier.wait()
        is_measured.wait()

    started = [threading.Thread(target=work) for _ in range(count)]
    for thread in started:
        thread.start()
    barrier.wait()
    measure()
    is_measured.set()
    for thread in started:
        thread.join()


def live_tensors(scale: float, measure: Measure) -> None:
    import torch

    kept = [torch.empty(1) for _ in range(int(100_000 * scale))]
    measure()
    kept.clear()


def many_events(scale: float, measure: Measure) -> None:
    """Produce events faster than the writer writes them."""
    import torch

    for _ in range(int(500_000 * scale)):
        torch.empty(10)
    measure()


CASES: dict[str, Callable[[float, Measure], None]] = {
    "functions": functions,
    "names of phases": texts,
    "live threads": threads,
    "live tensors": live_tensors,
    "events": many_events,
}


def held_bytes() -> int:
    """Memory of this process, without the pages of libraries."""
    held = 0
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(("RssAnon:", "RssShmem:")):
            held += int(line.split()[1]) * 1024
    is_journal = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if "-" in line.split(" ", 1)[0]:
            is_journal = ".journal/" in line
        elif is_journal and line.startswith("Rss:"):
            held += int(line.split()[1]) * 1024
    return held


def in_child(
    work: Callable[[Measure], None], limit_mib: int | None, folder: Path
) -> dict[str, Any]:
    """The memory of a child, and the end of its recording."""
    gc.collect()
    answer = folder / "answer.json"
    child = os.fork()
    if child == 0:
        status = 1
        try:
            answer.write_text(json.dumps(_measured(work, limit_mib, folder)))
            status = 0
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    if status:
        raise RuntimeError(f"the child ended with status {status}")
    found: dict[str, Any] = json.loads(answer.read_text())
    return found


def _measured(
    work: Callable[[Measure], None], limit_mib: int | None, folder: Path
) -> dict[str, Any]:
    import floodmark

    held = 0

    def measure() -> None:
        nonlocal held
        held = held_bytes()

    if limit_mib is None:
        work(measure)
        return {"bytes": held}
    path = folder / "held.flood"
    with floodmark.trace(path, max_memory=f"{limit_mib}MiB", force=True) as recorder:
        work(measure)
    losses = floodmark.Trace.open(path).summary()["losses"]
    return {"bytes": held, "failure": recorder.failure, "losses": losses}


def measure_case(
    name: str, scale: float, limits: list[int], folder: Path, empty: int
) -> dict[str, Any]:
    def work(measure: Measure) -> None:
        CASES[name](scale, measure)

    work(lambda: None)
    plain = in_child(work, None, folder)["bytes"]
    held = {}
    for limit in limits:
        found = in_child(work, limit, folder)
        held[limit] = {**found, "bytes": found["bytes"] - plain}
        print(f"  {name}, {limit} MiB: {held[limit]}", file=sys.stderr)
    return {"case": name, "held": held, "empty": empty}


def measure_empty(folder: Path) -> int:
    """The memory of a recording without events."""
    empty = in_child(lambda measure: measure(), LIMITS_MIB[-1], folder)["bytes"]
    idle = in_child(lambda measure: measure(), None, folder)["bytes"]
    return int(empty) - int(idle)


def table_of(rows: list[dict[str, Any]]) -> str:
    limits = list(rows[0]["held"]) if rows else []
    head = ["MiB held", "empty recording", *(f"limit {limit}" for limit in limits)]
    lines = []
    for row in rows:
        cells = [row["case"], f"{row['empty'] / MIB:.1f}"]
        for limit in limits:
            found = row["held"][limit]
            note = " *" if found["losses"] or found["failure"] else ""
            cells.append(f"{found['bytes'] / MIB:.1f}{note}")
        lines.append(cells)
    return machine.table(head, lines)


def main() -> int:
    parser = machine.arguments(__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="less work for a quick trial")
    parser.add_argument("--only", help="cases with this in their name")
    parser.add_argument("--limits", type=int, nargs="+", default=list(LIMITS_MIB), help="in MiB")
    parser.add_argument("--strict", action="store_true", help="fail when a limit is passed")
    args = parser.parse_args()
    import torch

    import floodmark

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        # Libraries that the first recording loads stay loaded in all children.
        with floodmark.trace(Path(folder) / "first.flood"):
            torch.empty(10)
        floodmark.Trace.open(Path(folder) / "first.flood").summary()
        names = [name for name in CASES if not args.only or args.only in name]
        empty = measure_empty(Path(folder))
        rows = [measure_case(name, args.scale, args.limits, Path(folder), empty) for name in names]
    about = machine.describe()
    parts = [
        "The memory of a recorded process less that of the same process without the recorder: its "
        "heap, the mapped journal, and the code objects that it keeps alive. Pages of libraries "
        "are not in it. An asterisk: the recording says that something was left out because of "
        "the limit.",
        machine.sentence(about),
        table_of(rows),
    ]
    result = {"machine": about, "rows": rows}
    machine.finish("recorder-memory", "What the recorder holds", parts, [], result, args.results)
    return 1 if args.strict and not all(map(is_within_limits, rows)) else 0


def is_within_limits(row: dict[str, Any]) -> bool:
    return all(found["bytes"] <= limit * MIB for limit, found in row["held"].items())


if __name__ == "__main__":
    sys.exit(main())
