"""A million events: bytes on disk, and the time of a report from a cold file.

    python bench/report.py --program target/release/floodmark

Records real operators on the CPU through the real probe until there are enough events, drops the
file from the page cache before each run, and times `floodmark report` as the native program and as
`python -m floodmark`, whose start-up is also shown alone.
"""

from __future__ import annotations

import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import machine

EVENTS = 1_000_000
MOST_BYTES_PER_EVENT = 12.0
MOST_SECONDS = 0.5
REPORTS = ["line", "stack", "module", "phase", "category", "tensor", "step"]


def record(path: Path, events: int) -> dict[str, Any]:
    """Train a small transformer until the recording has `events` events."""
    import torch
    from torch import nn

    import floodmark

    torch.manual_seed(0)
    torch.set_num_threads(1)
    layers = (nn.TransformerEncoderLayer(32, 2, 64, batch_first=True) for _ in range(6))
    model = nn.Sequential(*layers, nn.Linear(32, 64))
    optimizer = torch.optim.AdamW(model.parameters())

    chance = random.Random(0)

    def step() -> None:
        # Steps differ, or the file would be smaller than real ones.
        x = torch.randn(chance.randint(1, 8), chance.randint(1, 64), 32)
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    with floodmark.trace(path.with_name("trial.flood")) as trial:
        for _ in range(20):
            step()
    # The first step allocates states and has more events: add some steps.
    steps = int(events / (trial.trace.summary()["events"] / 20) * 1.05) + 20
    before = time.perf_counter()
    with floodmark.trace(path) as recording:
        for _ in range(steps):
            step()
    seconds = time.perf_counter() - before
    summary = recording.trace.summary()
    return {
        "events": summary["events"],
        "steps": summary["steps"],
        "losses": summary["losses"],
        "bytes": path.stat().st_size,
        "bytes_per_event": round(path.stat().st_size / summary["events"], 3),
        "recording_seconds": round(seconds, 2),
    }


def chill(path: Path) -> None:
    """Drop the file from the page cache."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(file)


def seconds_of(command: list[str], path: Path, runs: int) -> list[float]:
    times = []
    for _ in range(runs):
        chill(path)
        run = partial(subprocess.run, command, check=True, stdout=subprocess.DEVNULL)
        times.append(machine.seconds(run))
    return times


def main() -> int:
    parser = machine.arguments(__doc__)
    parser.add_argument("--program", type=Path, default=Path("target/release/floodmark"))
    parser.add_argument("--events", type=int, default=EVENTS)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--keep", type=Path, help="where to keep the recording")
    args = parser.parse_args()
    if not args.program.exists():
        print(
            f"error: there is no program at `{args.program}`\n\n"
            "hint: `cargo build --release --package floodmark`, or `make bench`",
            file=sys.stderr,
        )
        return 1
    with tempfile.TemporaryDirectory(prefix="floodmark-bench-") as folder:
        path = (args.keep or Path(folder) / "million.flood").absolute()
        recording = record(path, args.events)
        native: dict[str, list[float]] = {}
        for by in REPORTS:
            words = [str(args.program.absolute()), "report", str(path), "--by", by]
            native[by] = seconds_of(words, path, args.runs)
        python = [sys.executable, "-m", "floodmark"]
        through_python = seconds_of([*python, "report", str(path)], path, args.runs)
        start_up = seconds_of([*python, "--version"], path, args.runs)
    about = machine.describe()
    times = {by: statistics.median(seconds) for by, seconds in native.items()}
    slowest = max(times, key=lambda by: times[by])
    verdicts = [
        (
            f"{recording['bytes_per_event']:.2f} bytes an event (at most {MOST_BYTES_PER_EVENT:g})",
            recording["bytes_per_event"] <= MOST_BYTES_PER_EVENT,
        ),
        (
            f"report by line in {times['line']:.3f} s (at most {MOST_SECONDS} s)",
            times["line"] <= MOST_SECONDS,
        ),
        (
            f"slowest report, by {slowest}, in {times[slowest]:.3f} s (at most {MOST_SECONDS} s)",
            times[slowest] <= MOST_SECONDS,
        ),
        (
            f"at least {args.events:,} events, losses: {recording['losses'] or 'none'}",
            recording["events"] >= args.events and not recording["losses"],
        ),
    ]
    shown = [(f"`floodmark report --by {by}`", native[by]) for by in REPORTS]
    shown += [
        ("`python -m floodmark report`", through_python),
        ("of it, start-up (`python -m floodmark --version`)", start_up),
    ]
    rows = [[what, f"{statistics.median(took):.3f}", f"{min(took):.3f}"] for what, took in shown]
    parts = [
        machine.sentence(about),
        f"{recording['events']:,} events of {recording['steps']:,} training steps on the CPU, "
        f"{recording['bytes'] / 2**20:.1f} MiB. The file was dropped from the page cache "
        "before every run.",
        machine.table(["from a cold file", "median, s", "least, s"], rows),
    ]
    result = {
        "machine": about,
        "recording": recording,
        "native_seconds": native,
        "python_seconds": through_python,
        "python_start_seconds": start_up,
    }
    title = "A recording of a million events"
    return machine.finish("report", title, parts, verdicts, result, args.results)


if __name__ == "__main__":
    sys.exit(main())
