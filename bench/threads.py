"""What recording costs a program with many threads, and what it adds in page faults.

    python bench/threads.py

Each case is work that is done again and again in one process, untraced and traced by turns, in
pairs whose order alternates. A pair gives a ratio; the figure of a case is the median of its
ratios, so what disturbs both of a pair disturbs nothing. The time is that of the work, without
start and stop. The CPU time is that of the whole process from before the start to after the stop,
less that of a recording without work: what the writer thread leaves for later is in it.

C++ threads run a TorchScript loop, which holds no lock of Python's.

Where two cores are free, the time of short Python threads depends on where the kernel puts them:
beside a recording it wakes the starting thread on another core more often, and the two threads wait
for each other's GIL. On one core, what recording itself adds remains.
"""

from __future__ import annotations

import gc
import os
import resource
import statistics
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import machine

THREADS = 64
SHORT_THREADS = 5000


@dataclass(frozen=True)
class Case:
    """Work, and the limit of its ratio."""

    name: str
    #: Does the work once; returns the number of allocations.
    work: Callable[[], int]
    #: The least rate, or the longest time, as a ratio to the untraced work.
    least_rate: float | None = None
    longest_time: float | None = None
    rounds: int = 7
    #: On one core no thread hands the GIL to a thread on another core.
    on_one_core: bool = False


def in_threads(count: int, work: Callable[[], None]) -> None:
    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def short_threads(at_a_time: int) -> Callable[[], int]:
    import torch

    def work() -> int:
        for _ in range(SHORT_THREADS // at_a_time):
            in_threads(at_a_time, lambda: torch.empty(1000))
        return SHORT_THREADS

    return work


def scripted(each: int) -> dict[str, Callable[[], int]]:
    """The loops of the C++ threads."""
    import torch

    def allocate(count: int, size: int) -> list[torch.Tensor]:
        # Without a reference to it, the compiler removes the allocation.
        kept = [torch.empty([1])]
        for _ in range(count):
            kept[0] = torch.empty([size])
        return kept

    def add(count: int, size: int) -> torch.Tensor:
        left = torch.ones([size])
        total = left
        for _ in range(count):
            total = left + total
        return total

    with warnings.catch_warnings():
        # TorchScript is deprecated, and has no successor that runs without the GIL.
        warnings.simplefilter("ignore")
        loops = {"allocate": torch.jit.script(allocate), "add": torch.jit.script(add)}

    def in_all_threads(loop: Any) -> Callable[[], int]:
        for _ in range(3):
            loop(10, 1000)

        def work() -> int:
            in_threads(THREADS, lambda: loop(each, 1000))
            return THREADS * each

        return work

    return {name: in_all_threads(loop) for name, loop in loops.items()}


def python_threads(each: int) -> Callable[[], int]:
    import torch

    def loop() -> None:
        for _ in range(each):
            torch.empty(1000)

    def work() -> int:
        in_threads(THREADS, loop)
        return THREADS * each

    return work


def training_step(layers: int) -> Callable[[], int]:
    import gpt2

    made: list[gpt2.Training] = []

    def work() -> int:
        # Created in the first turn, which is not measured: other cases need no model.
        if not made:
            config = gpt2.Config(layers=layers)
            made.append(gpt2.Training(config, batch=1, length=64, device="cpu"))
        made[0].step()
        return 0

    return work


def cases(scale: float, layers: int, rounds: int | None) -> list[Case]:
    each = int(20_000 * scale)
    loops = scripted(each)
    return [
        Case(f"{THREADS} C++ threads, one operator an allocation", loops["add"], 0.8),
        Case(f"{THREADS} C++ threads, allocations alone", loops["allocate"], 0.8),
        Case(f"{THREADS} Python threads", python_threads(int(1500 * scale)), 0.8),
        Case(f"{SHORT_THREADS} threads one after the other", short_threads(1), None, 1.2),
        Case(f"{SHORT_THREADS} threads, 50 at a time", short_threads(50), None, 1.2),
        Case(
            f"{SHORT_THREADS} threads one after the other, on one core",
            short_threads(1),
            longest_time=1.2,
            on_one_core=True,
        ),
        Case("GPT-2 small, batch 1 × 64, a step", training_step(layers), None, 1.05, rounds or 15),
    ]


@dataclass
class Figures:
    """The figures of one turn."""

    seconds: float
    cpu: float
    faults: int
    allocations: int


def faults() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def turn(work: Callable[[], int], folder: Path, *, traced: bool) -> Figures:
    import floodmark
    from floodmark import _core

    gc.collect()
    # Hooks stay for some seconds after a recording: remove them for untraced turns.
    _core.disarm()
    cpu, before = time.process_time(), faults()
    path = folder / "bench.flood"
    if traced:
        floodmark.start(path)
    began = time.perf_counter()
    allocations = work()
    seconds = time.perf_counter() - began
    if traced:
        floodmark.stop()
        path.unlink()
    return Figures(seconds, time.process_time() - cpu, faults() - before, allocations)


def measure(case: Case, folder: Path) -> dict[str, Any]:
    """The medians of a case, and how busy the machine was meanwhile."""
    load = os.getloadavg()[0]
    cores = os.sched_getaffinity(0)
    if case.on_one_core:
        # Of this thread, and so of those that it starts.
        os.sched_setaffinity(0, {max(cores)})
    for traced in (False, True):
        turn(case.work, folder, traced=traced)
    pairs = []
    for number in range(case.rounds):
        order = (False, True) if number % 2 else (True, False)
        figures = {traced: turn(case.work, folder, traced=traced) for traced in order}
        idle = turn(lambda: 0, folder, traced=True)
        pairs.append((figures[False], figures[True], idle))
        print(f"  {case.name}: round {number + 1} of {case.rounds}", file=sys.stderr)
    os.sched_setaffinity(0, cores)
    median = statistics.median
    ratios = sorted(traced.seconds / plain.seconds for plain, traced, _ in pairs)
    return {
        "case": case.name,
        "rounds": case.rounds,
        "seconds_untraced": median(plain.seconds for plain, _, _ in pairs),
        "seconds_traced": median(traced.seconds for _, traced, _ in pairs),
        "time_ratio": median(ratios),
        "time_ratio_quartiles": [ratios[len(ratios) // 4], ratios[-1 - len(ratios) // 4]],
        "cpu_ratio": median((t.cpu - idle.cpu) / plain.cpu for plain, t, idle in pairs),
        "faults_untraced": median(plain.faults for plain, _, _ in pairs),
        "faults_traced": median(t.faults - idle.faults for _, t, idle in pairs),
        "allocations": pairs[0][0].allocations,
        "load": [load, os.getloadavg()[0]],
        "least_rate": case.least_rate,
        "longest_time": case.longest_time,
    }


def is_met(row: dict[str, Any]) -> bool:
    if row["least_rate"]:
        return bool(1 / row["time_ratio"] >= row["least_rate"])
    return bool(row["time_ratio"] <= row["longest_time"])


def lines_of(rows: list[dict[str, Any]]) -> list[list[str]]:
    lines = []
    for row in rows:
        rate = row["least_rate"]
        aim = f"rate ≥ {rate}" if rate else f"time ≤ {row['longest_time']}"
        ratio = row["time_ratio"]
        lines.append(
            [
                row["case"],
                f"{row['seconds_untraced']:.2f}",
                f"{ratio:.2f} ×",
                "{:.2f} to {:.2f}".format(*row["time_ratio_quartiles"]),
                f"{1 / ratio:.2f} ×",
                f"{row['cpu_ratio']:.2f} ×",
                aim,
                "met" if is_met(row) else "MISSED",
                f"{row['faults_untraced']:.0f}",
                f"{row['faults_traced']:.0f}",
                "{:.0f} to {:.0f}".format(*sorted(row["load"])),
            ]
        )
    return lines


def main() -> int:
    parser = machine.arguments(__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="less work for a quick trial")
    parser.add_argument("--layers", type=int, default=12, help="of GPT-2")
    parser.add_argument("--rounds", type=int, help="fewer for a quick trial")
    parser.add_argument("--only", help="cases with this in their name")
    parser.add_argument("--strict", action="store_true", help="fail when an aim is missed")
    args = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for case in cases(args.scale, args.layers, args.rounds):
            if args.only and args.only not in case.name:
                continue
            if args.rounds:
                case = Case(**{**vars(case), "rounds": args.rounds})
            rows.append(measure(case, Path(folder)))
    about = machine.describe()
    head = ["case", "untraced, s", "time", "quartiles", "rate", "CPU time", "aim", ""]
    head += ["faults", "traced", "load"]
    parts = [
        "Time, rate and CPU time of the traced work as ratios to the untraced work, the median of "
        "pairs in one process. CPU time is that of all threads, with the writer's work until the "
        "file is finished. Faults are minor page faults of the process. The load is that of the "
        "machine before and after: more than its cores means that other programs ran beside the "
        "benchmark.",
        machine.sentence(about),
        machine.table(head, lines_of(rows)),
    ]
    result = {"machine": about, "rows": rows}
    machine.finish("threads", "What recording costs many threads", parts, [], result, args.results)
    return 1 if args.strict and not all(map(is_met, rows)) else 0


if __name__ == "__main__":
    sys.exit(main())
