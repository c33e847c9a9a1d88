"""Reading torch's snapshots: time and memory beside `pickle.load`; replay and simulation.

    python bench/snapshot.py --rates target/release/examples/rates

Two files: a recording of GPT-2 on an H200 with 300,000 events, and one of at least 500 MB that is
made of it by going through the same steps again and again. Each is loaded by CPython's `pickle`,
with and without its garbage collector, and opened by floodmark, in turns, in one process.
"""

from __future__ import annotations

import argparse
import gc
import gzip
import json
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import machine

RECORDING = Path(__file__).parent.parent / "fixtures/recordings/gpt2-300k-events.pickle.gz"
LARGE_BYTES = 500_000_000
LEAST_SPEED_UP = 8.0
LEAST_SPEED_UP_WITHOUT_GC = 3.0
MOST_MEMORY = 0.5
LEAST_RATE = 5_000_000


def enlarge(snapshot: dict[str, Any], least_bytes: int, one_bytes: int) -> dict[str, Any]:
    """The same history many times over, each time with events of its own that share their stacks.

    Between two rounds the blocks that the last one left are freed, and those that it frees without
    allocating them are allocated, so that the whole is a possible history.
    """
    events = snapshot["device_traces"][0]
    made: dict[int, dict[str, Any]] = {}
    missing: dict[int, dict[str, Any]] = {}
    for event in events:
        if event["action"] == "alloc":
            made[event["addr"]] = event
        elif event["action"] == "free_requested" and made.pop(event["addr"], None) is None:
            missing[event["addr"]] = event
    seam = []
    for event in made.values():
        seam += [{**event, "action": "free_requested"}, {**event, "action": "free_completed"}]
    seam += [{**event, "action": "alloc"} for event in missing.values()]
    # An event whose texts exist already needs fewer bytes.
    rounds = least_bytes * 6 // (one_bytes * 5) + 2
    length = events[-1]["time_us"] - events[0]["time_us"] + 1
    story = []
    for number in range(rounds):
        part = events if number == 0 else seam + events
        story += [{**event, "time_us": event["time_us"] + number * length} for event in part]
    return {**snapshot, "device_traces": [story]}


def best(work: Callable[[], object], times: int) -> float:
    """The duration of the fastest of some runs, without freeing their results."""
    found = []
    for _ in range(times):
        gc.collect()
        found.append(machine.seconds(work))
    return min(found)


def measure(path: Path, times: int) -> dict[str, float]:
    """Seconds of each way to load a file, in this process."""
    import floodmark

    def load() -> object:
        with path.open("rb") as file:
            return pickle.load(file)

    def open_trace() -> object:
        return floodmark.Trace.open(path)

    ours = best(open_trace, times + 2)
    theirs = best(load, times)
    gc.disable()
    without_gc = best(load, times)
    gc.enable()
    ours = min(ours, best(open_trace, times + 2))
    return {"floodmark": ours, "pickle": theirs, "pickle_without_gc": without_gc}


def look_at(name: str, path: Path, args: argparse.Namespace, times: int) -> dict[str, Any]:
    print(f"  {name}", file=sys.stderr)
    command = [sys.executable, __file__, "--worker", str(path), "--times", str(times)]
    answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    seconds = json.loads(answer)
    rates = subprocess.run([args.rates, path], check=True, capture_output=True, text=True).stdout
    size = path.stat().st_size
    # The file's own bytes are not in memory, so nothing is subtracted.
    beyond = json.loads(rates)["open_memory"]
    return {
        "name": name,
        "bytes": size,
        "seconds": seconds,
        "speed_up": round(seconds["pickle"] / seconds["floodmark"], 2),
        "speed_up_without_gc": round(seconds["pickle_without_gc"] / seconds["floodmark"], 2),
        "memory_beyond": beyond,
        "memory_part": round(beyond / size, 3),
        "rates": json.loads(rates),
    }


def verdicts(row: dict[str, Any]) -> str:
    rates = row["rates"]
    slowest = min(rates["simulate_per_second"], rates["simulate_expandable_per_second"])
    replayed = rates["replay_per_second"]
    found = [
        ("times as fast as `pickle.load`", row["speed_up"], LEAST_SPEED_UP, 1),
        (
            "the same without its garbage collector",
            row["speed_up_without_gc"],
            LEAST_SPEED_UP_WITHOUT_GC,
            1,
        ),
        ("memory, as a part of the file", row["memory_part"], MOST_MEMORY, -1),
        ("million events replayed a second", round(replayed / 1e6, 1), LEAST_RATE / 1e6, 1),
        ("million events simulated a second", round(slowest / 1e6, 1), LEAST_RATE / 1e6, 1),
    ]
    return "\n".join(
        f"- {what}: {value:g} (budget {limit:g}): "
        f"{'met' if value * sign >= limit * sign else 'MISSED'}"
        for what, value, limit, sign in found
    )


def table_of(rows: list[dict[str, Any]]) -> str:
    head = ["file", "MB", "floodmark, s", "pickle.load, s", "without gc, s", "memory, MB"]
    ways = ("floodmark", "pickle", "pickle_without_gc")
    cells = [
        [
            row["name"],
            f"{row['bytes'] / 1e6:.0f}",
            *(f"{row['seconds'][way]:.3f}" for way in ways),
            f"{row['memory_beyond'] / 1e6:.1f}",
        ]
        for row in rows
    ]
    return machine.table(head, cells)


def main() -> int:
    parser = machine.arguments(__doc__)
    parser.add_argument("--rates", type=Path, help="the example `rates`")
    parser.add_argument("--small", action="store_true", help="leave out the large file")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--times", type=int, default=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        print(json.dumps(measure(args.worker, args.times)))
        return 0
    with tempfile.TemporaryDirectory(prefix="floodmark-bench-") as folder:
        path = Path(folder) / "recording.pickle"
        path.write_bytes(gzip.decompress(RECORDING.read_bytes()))
        rows = [look_at("300,000 events, H200", path, args, 5)]
        if not args.small:
            large = Path(folder) / "large.pickle"
            make_large(path, large)
            rows.append(look_at("the same steps many times over", large, args, 1))
    about = machine.describe()
    parts = [machine.sentence(about), table_of(rows)]
    for row in rows:
        events = row["rates"]["events"]
        parts += [f"## {row['name']}: {events:,} events of a trace", verdicts(row)]
    result = {"machine": about, "rows": rows}
    return machine.finish("snapshot", "Reading torch's snapshots", parts, [], result, args.results)


def make_large(path: Path, large: Path) -> None:
    """Write the large file in a process of its own, which needs some gigabytes."""
    code = (
        "import gc, pickle, sys; gc.disable(); sys.path.insert(0, sys.argv[3]);"
        "from snapshot import LARGE_BYTES, enlarge; from pathlib import Path;"
        "path = Path(sys.argv[1]); found = pickle.loads(path.read_bytes());"
        "found = enlarge(found, LARGE_BYTES, path.stat().st_size);"
        "pickle.dump(found, open(sys.argv[2], 'wb'))"
    )
    folder = str(Path(__file__).parent)
    subprocess.run([sys.executable, "-c", code, str(path), str(large), folder], check=True)


if __name__ == "__main__":
    sys.exit(main())
