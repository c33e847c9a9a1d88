"""What a page's answers take on a million and on ten million events.

    python bench/page_levels.py --programs target/release/examples

Writes recordings with the program `synthetic`, asks each for everything that a page asks for with
the program `page`, and writes down how long that takes on one core and how much memory is used.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import machine

EVENTS = [1_000_000, 10_000_000]
MOST_TILE = 0.005
MOST_MOMENT = 0.1
MOST_BYTES = 3 * 2**30


def measure(programs: Path, events: int, folder: Path) -> dict[str, Any]:
    path = folder / f"{events}.flood"
    subprocess.run([programs / "synthetic", str(events), path], check=True)
    done = subprocess.run([programs / "page", path], check=True, capture_output=True)
    result: dict[str, Any] = json.loads(done.stdout)
    result["file_bytes"] = path.stat().st_size
    path.unlink()
    return result


def built_rows(results: list[dict[str, Any]]) -> list[list[str]]:
    rows = [["open the file", *(f"{one['open_seconds']:.2f}" for one in results)]]
    for name in results[0]["built_seconds"]:
        rows.append([f"index: {name}", *(f"{one['built_seconds'][name]:.2f}" for one in results)])
    for name, key in [
        ("the trace, MiB", "opened_bytes"),
        ("the trace and all indexes, MiB", "indexed_bytes"),
        ("most ever, MiB", "most_bytes"),
    ]:
        rows.append([name, *(f"{one[key] / 2**20:.0f}" for one in results)])
    return rows


def asked_rows(results: list[dict[str, Any]]) -> list[list[str]]:
    names: list[str] = []
    for one in results:
        names += [name for name in one["asked_seconds"] if name not in names]
    rows = []
    for name in sorted(names):
        row = [name]
        for one in results:
            asked = one["asked_seconds"].get(name)
            row.append(f"{asked['mean'] * 1e3:.2f}" if asked else "")
        last = results[-1]["asked_seconds"].get(name)
        row.append(f"{last['longest_answer_bytes'] / 1000:.0f}" if last else "")
        rows.append(row)
    return rows


def verdicts(results: list[dict[str, Any]]) -> list[tuple[str, bool]]:
    million, most = results[0], results[-1]

    def slowest(one: dict[str, Any], *names: str) -> float:
        asked = one["asked_seconds"].items()
        return float(max(took["mean"] for name, took in asked if name.startswith(names)))

    tile = slowest(most, "timeline tile")
    moment = slowest(million, "icicle", "report", "segments", "hit")
    built = sum(million["built_seconds"].values())
    memory = most["most_bytes"]
    return [
        (f"slowest tile of the timeline: {tile * 1e3:.1f} ms (at most 5)", tile <= MOST_TILE),
        (
            f"slowest moment of a million events: {moment * 1e3:.1f} ms (at most 100)",
            moment <= MOST_MOMENT,
        ),
        (f"all indexes of a million events: {built:.2f} s (below 1)", built < 1),
        (
            f"memory for {most['events']:,} events: {memory / 2**20:.0f} MiB (at most 3,072)",
            memory <= MOST_BYTES,
        ),
    ]


def main() -> int:
    parser = machine.arguments(__doc__)
    parser.add_argument("--programs", type=Path, default=Path("target/release/examples"))
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="floodmark-bench-") as folder:
        results = [measure(args.programs, events, Path(folder)) for events in EVENTS]
    about = machine.describe_host()
    events = [f"{one['events']:,} events" for one in results]
    parts = [
        f"{about['cpu']}, {about['cores']} cores, {about['system']}, {about['date']}. Seconds "
        "are those of the processor, on one core; each question is asked at 25 places of the "
        "recording. Recordings are made up by `crates/floodmark/examples/synthetic.rs`.",
        machine.table(["once, s", *events], built_rows(results)),
        machine.table(["each time, ms", *events, "longest answer, kB"], asked_rows(results)),
    ]
    result = {"machine": about, "results": results}
    title = "What a page's answers take"
    return machine.finish("page-levels", title, parts, verdicts(results), result, args.results)


if __name__ == "__main__":
    sys.exit(main())
