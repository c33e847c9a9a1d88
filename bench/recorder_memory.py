"""What the recorder holds in a program, against `--max-memory`.

    python bench/recorder_memory.py

Each case is work that makes one kind of thing that the recorder has to remember. It runs in a child
process without the recorder, and in one for each limit. The highest resident memory of a child
(`VmHWM`, mapped journal included), less that of the child without the recorder, is what the
recorder holds. Children are forked before any thread runs, so that all begin with the same memory.
"""

from __future__ import annotations

import argparse
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


def functions(scale: float) -> None:
    """Each call is a function of its own, with a file name of its own."""
    import torch

    for number in range(int(20_000 * scale)):
        code = compile("torch.empty(10)", f"/a/folder/with/a/long/name/{number}.py", "exec")
        exec(code, {"torch": torch})


def texts(scale: float) -> None:
    """Each phase has a name of its own."""
    import torch

    import floodmark

    for number in range(int(50_000 * scale)):
        with floodmark.phase(f"a phase with a name of some length {number}"):
            torch.empty(10)


def threads(scale: float) -> None:
    """All threads are alive at the same time."""
    import torch

    count = int(300 * scale)
    barrier = threading.Barrier(count)

    def work() -> None:
        for _ in range(20):
            torch.empty(10)
        barrier.wait()

    started = [threading.Thread(target=work) for _ in range(count)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()


def live_tensors(scale: float) -> None:
    import torch

    kept = [torch.empty(1) for _ in range(int(100_000 * scale))]
    kept.clear()


def many_events(scale: float) -> None:
    """Faster than the writer writes."""
    import torch

    for _ in range(int(500_000 * scale)):
        torch.empty(10)


CASES: dict[str, Callable[[float], None]] = {
    "functions": functions,
    "names of phases": texts,
    "live threads": threads,
    "live tensors": live_tensors,
    "events": many_events,
}


def highest_resident_bytes() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("this kernel does not say how much memory a process had")


def in_child(work: Callable[[], None], limit_mib: int | None, folder: Path) -> dict[str, Any]:
    """What a child holds at most, and how its recording ended."""
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


def _measured(work: Callable[[], None], limit_mib: int | None, folder: Path) -> dict[str, Any]:
    import floodmark

    if limit_mib is None:
        work()
        return {"bytes": highest_resident_bytes()}
    path = folder / "held.flood"
    with floodmark.trace(path, max_memory=f"{limit_mib}MiB", force=True) as recorder:
        work()
    held = highest_resident_bytes()
    losses = floodmark.Trace.open(path).summary()["losses"]
    return {"bytes": held, "failure": recorder.failure, "losses": losses}


def measure(name: str, scale: float, folder: Path) -> dict[str, Any]:
    def work() -> None:
        CASES[name](scale)

    work()
    plain = in_child(work, None, folder)["bytes"]
    empty = in_child(lambda: None, LIMITS_MIB[-1], folder)
    idle = in_child(lambda: None, None, folder)["bytes"]
    held = {}
    for limit in LIMITS_MIB:
        found = in_child(work, limit, folder)
        held[limit] = {**found, "bytes": found["bytes"] - plain}
        print(f"  {name}, {limit} MiB: {held[limit]}", file=sys.stderr)
    return {"case": name, "held": held, "empty": empty["bytes"] - idle}


def render(about: dict[str, Any], rows: list[dict[str, Any]]) -> str:
    head = ["MiB held", "empty recording", *(f"limit {limit}" for limit in LIMITS_MIB)]
    lines = []
    for row in rows:
        cells = [row["case"], f"{row['empty'] / MIB:.1f}"]
        for limit in LIMITS_MIB:
            found = row["held"][limit]
            note = " *" if found["losses"] or found["failure"] else ""
            cells.append(f"{found['bytes'] / MIB:.1f}{note}")
        lines.append(cells)
    return (
        "# What the recorder holds\n\nThe highest resident memory of a recorded process less that "
        "of the same process without the recorder. An asterisk: the recording says that something "
        "was left out because of the limit.\n\n"
        f"{machine.sentence(about)}\n\n{machine.table(head, lines)}\n"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=float, default=1.0, help="less work for a quick trial")
    parser.add_argument("--only", help="cases with this in their name")
    parser.add_argument("--results", type=Path, help="folder for the results")
    args = parser.parse_args()
    import torch

    import floodmark

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        # What a first recording loads stays loaded in all children.
        with floodmark.trace(Path(folder) / "first.flood"):
            torch.empty(10)
        floodmark.Trace.open(Path(folder) / "first.flood").summary()
        names = [name for name in CASES if not args.only or args.only in name]
        rows = [measure(name, args.scale, Path(folder)) for name in names]
    about = machine.describe()
    text = render(about, rows)
    print(text)
    machine.write("recorder-memory", {"machine": about, "rows": rows}, text, args.results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
