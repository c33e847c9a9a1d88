"""What windows cost: a trace per forward pass, opening, closing and asking one.

The loop is that of a layer tracer: a model of width
512, one trace for each forward pass. Runs of plain and of traced passes alternate in one process,
in pairs whose order alternates; the ratio is the median of the pairs' ratios, so that what disturbs
both of a pair disturbs nothing.

    python bench/windows.py [--passes 60]
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import machine
import torch
from torch import nn

import floodmark
from floodmark import _core
from floodmark_compat.gpu_optimizer import MemoryTracer

#: How many passes are timed at once.
RUN = 5


def repeat(work: Callable[[], None]) -> None:
    for _ in range(RUN):
        work()


def loop(passes: int) -> list[list[str]]:
    """Medians of a plain pass, of a traced one, and of their ratios, for each way to trace."""
    model = nn.Sequential(*[layer for _ in range(8) for layer in (nn.Linear(512, 512), nn.ReLU())])
    batch = torch.randn(1024, 512)
    tracer = MemoryTracer(device="cpu")

    def plain() -> None:
        model(batch)

    def layers() -> None:
        with tracer.trace(model):
            model(batch)

    def window() -> None:
        with floodmark.trace(devices="cpu"):
            model(batch)

    rows = []
    for name, traced in (("`MemoryTracer.trace`", layers), ("`floodmark.trace()`", window)):
        for is_inside in (False, True):
            outer = floodmark.trace(devices="cpu").start() if is_inside else None
            times: tuple[list[float], list[float]] = ([], [])
            for number in range(passes // RUN):
                for at in (0, 1) if number % 2 else (1, 0):
                    # Plain passes are without the hooks that stay for the next window.
                    _core.disarm()
                    work = (plain, traced)[at]
                    work()
                    times[at].append(machine.seconds(lambda work=work: repeat(work)) / RUN)
            if outer is not None:
                outer.stop()
            where = "inside another recording" if is_inside else "alone"
            medians = [statistics.median(each) * 1e3 for each in times]
            ratio = statistics.median(b / a for a, b in zip(*times, strict=True))
            cells = [*(f"{each:.2f}" for each in medians), f"{ratio:.3f}"]
            rows.append([f"{name}, {where}", *cells])
            _core.disarm()
    return rows


def opening(passes: int) -> list[list[str]]:
    """The medians of opening and of closing a window, in microseconds."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, path, has_recorder in (
            ("in memory, a recorder runs", None, True),
            ("in memory, no recording is open", None, False),
            ("with a file, a recorder runs", Path(folder) / "inner.flood", True),
            ("with a file, no recording is open", Path(folder) / "only.flood", False),
        ):
            outer = floodmark.trace().start() if has_recorder else None
            opened, closed = [], []
            for number in range(passes + 3):
                window = floodmark.trace(path)
                begin = time.perf_counter()
                window.start()
                middle = time.perf_counter()
                kept = torch.zeros(100 + number)
                before_end = time.perf_counter()
                window.stop()
                end = time.perf_counter()
                # The first ones also initialise what is shared.
                if number >= 3:
                    opened.append(middle - begin)
                    closed.append(end - before_end)
                del kept
            if outer is not None:
                outer.stop()
            _core.disarm()
            rows.append(
                [name, *(f"{statistics.median(all) * 1e6:.0f}" for all in (opened, closed))]
            )
    return rows


def asking(counts: tuple[int, ...]) -> list[list[str]]:
    """Milliseconds for each question to an open window, by the events that it has.

    Each is asked nine times, after some 100 new events and a step: what is measured is what a
    program pays that asks now and then.
    """
    questions: list[Callable[[floodmark.Recorder], object]] = [
        lambda window: window.trace.summary(),
        lambda window: window.peak("cpu").by_line(),
        lambda window: window.peak("cpu").by_module(),
        lambda window: window.trace._core.levels_at_steps(device="cpu", first=steps - 1),
        lambda window: window.trace._core.layers(
            device="cpu", layers="layer ", max_events=0, fragmentation=True
        ),
    ]
    steps = 0
    rows = []
    many = [torch.zeros(1) for _ in range(1000)]
    with floodmark.trace(devices="cpu") as window:
        for count in counts:
            while window.trace.summary()["events"] < count:
                for _ in range(max(count // 20_000, 1)):
                    with window.phase("layer one"):
                        torch._foreach_add(many, 1)
                    steps += window.step() is not None
            times = []
            for question in questions:
                tries = []
                for _ in range(9):
                    kept = [torch.zeros(1) for _ in range(50)]
                    del kept
                    steps += window.step() is not None
                    tries.append(machine.seconds(lambda question=question: question(window)) * 1e3)
                times.append(statistics.median(tries))
            events = window.trace.summary()["events"]
            rows.append([f"{events:,}", *(f"{each:.2f}" for each in times)])
    _core.disarm()
    return rows


def main() -> int:
    parser = machine.arguments(__doc__)
    parser.add_argument("--passes", type=int, default=60)
    args = parser.parse_args()
    torch.set_num_threads(max(len(os.sched_getaffinity(0)) // 2, 1))
    asked = ["totals", "by line", "by module", "new steps", "layers"]
    tables = [
        (["a trace per pass", "plain, ms", "traced, ms", "ratio"], loop(args.passes)),
        (["a window", "open, µs", "close, µs"], opening(args.passes)),
        (["events", *(f"{name}, ms" for name in asked)], asking((10_000, 100_000, 1_000_000))),
    ]
    parts = [
        "`python bench/windows.py`. A ratio is the median of pairs in one process: a pass of an "
        "MLP of width 512 with a trace of its own, to the pass alone. Plain passes run without the "
        "hooks that stay for some seconds after a window.",
        machine.sentence(machine.describe()),
        *(machine.table(head, rows) for head, rows in tables),
    ]
    return machine.finish("windows", "What windows cost", parts, [], None, args.results)


if __name__ == "__main__":
    sys.exit(main())
