"""Fake tensors against an H200's recordings, beside torch's `MemTracker`, and what both cost.

    python bench/fake_engine.py [--quick]

Each run is a process of its own (`fake_one.py`). Errors are of the peak, against what a real H200
recorded for the models of `fixtures/zoo`. Costs are seconds of the processor for the fastest step,
since a shared machine's clock says little. Exit status 1 when an aim is missed.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import machine

HERE = Path(__file__).resolve().parent
RECORDINGS = HERE.parent / "fixtures" / "recordings" / "zoo"
QUICK = ["neumf", "t5_small", "resnet18_fp32"]
#: The second step allocates the same as later ones; the third is timed.
STEPS, TIMED_STEPS = 2, 3
#: A step against one of `FakeTensorMode` alone, at most; `MemTracker`'s against ours, at least.
MOST_TIMES_PLAIN, LEAST_TIMES_FASTER = 1.5, 8.0
MOST_MEDIAN_ERROR, MOST_ERROR = 0.01, 0.03


def run(way: str, name: str, steps: int) -> dict[str, Any]:
    """One run: `peak` and `steps`, or `error`."""
    command = [sys.executable, str(HERE / "fake_one.py"), way, name, str(steps)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3600)
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        return {"error": (done.stderr.strip().splitlines() or ["died"])[-1][:120]}
    found: dict[str, Any] = json.loads(lines[-1])
    return found


def recorded_peak(name: str) -> int:
    """The highest allocated bytes of the H200 in any phase of any step."""
    steps = json.loads((RECORDINGS / f"{name}.json").read_text())["steps"]
    phases = [one for step in steps for one in step.values() if isinstance(one, dict)]
    return max(int(phase["peak"]) for phase in phases)


def fastest(found: list[dict[str, Any]]) -> float | None:
    """The processor seconds of the fastest step of all successful runs."""
    seconds = [step[1] for one in found if "steps" in one for step in one["steps"]]
    return min(seconds, default=None)


def of_zoo(names: list[str]) -> list[dict[str, Any]]:
    """The zoo: a row for each model, ours and torch's."""
    rows = []
    for name in names:
        truth = recorded_peak(name)
        row: dict[str, Any] = {"model": name, "recorded": truth}
        for way in ("fake", "memtracker"):
            found = run(way, name, STEPS)
            row[way] = found
            if "peak" in found:
                found["error_of_peak"] = found["peak"] / truth - 1
                found["fastest"] = fastest([found])
        rows.append(row)
        print(json.dumps(row), flush=True)
    return rows


def of_llama(is_quick: bool) -> dict[str, Any]:
    """A step of a Llama in all ways; plain fake tensors and ours alternate."""
    runs: dict[str, list[dict[str, Any]]] = {"plain": [], "fake": []}
    for _ in range(1 if is_quick else 2):
        for way in ("plain", "fake"):
            runs[way].append(run(way, "7b", TIMED_STEPS))
    if not is_quick:
        runs["phantom"] = [run("phantom", "7b", TIMED_STEPS)]
        # Its first step is as slow as all others, and takes half a minute.
        runs["memtracker"] = [run("memtracker", "7b", STEPS)]
        runs["fake, 70b"] = [run("fake", "70b", TIMED_STEPS)]
    for way, found in runs.items():
        print(way, json.dumps(found), flush=True)
    return {
        way: {"fastest": fastest(found), "peak": found[0].get("peak"), "runs": found}
        for way, found in runs.items()
    }


def errors_of(rows: list[dict[str, Any]], way: str) -> list[float]:
    """How far the peaks are from the recorded ones."""
    return [abs(row[way]["error_of_peak"]) for row in rows if "error_of_peak" in row[way]]


def missed_aims(rows: list[dict[str, Any]], llama: dict[str, Any]) -> list[str]:
    """The aims that were missed."""
    missed = [f"{row['model']}: {row['fake']['error']}" for row in rows if "error" in row["fake"]]
    errors = errors_of(rows, "fake")
    if errors and statistics.median(errors) > MOST_MEDIAN_ERROR:
        missed.append(f"median error {statistics.median(errors):.2%}")
    if errors and max(errors) > MOST_ERROR:
        missed.append(f"worst error {max(errors):.2%}")
    ours, plain = llama["fake"]["fastest"], llama["plain"]["fastest"]
    if ours is None or plain is None or ours > MOST_TIMES_PLAIN * plain:
        missed.append(f"a step of {ours} s against {plain} s of fake tensors alone")
    theirs = llama.get("memtracker", {}).get("fastest")
    if ours is not None and theirs is not None and theirs < LEAST_TIMES_FASTER * ours:
        missed.append(f"a step of {ours} s against {theirs} s of MemTracker")
    return missed


def cells_of(found: dict[str, Any]) -> list[str]:
    """Error and seconds of one run."""
    if "error" in found:
        return [f"fails: {found['error'].split(':')[0]}", ""]
    return [f"{found['error_of_peak']:+.3%}", f"{found['fastest']:.3f}"]


def parts_of(about: dict[str, Any], rows: Any, llama: Any) -> list[str]:
    """The parts of the page of results."""
    head = ["model", "recorded, MiB", "ours", "step, s", "MemTracker", "step, s"]
    lines = [
        [
            row["model"],
            f"{row['recorded'] / 2**20:,.1f}",
            *cells_of(row["fake"]),
            *cells_of(row["memtracker"]),
        ]
        for row in rows
    ]
    plain = llama["plain"]["fastest"]
    costs = []
    for way, one in llama.items():
        seconds = one["fastest"]
        peak = "" if one["peak"] is None else f"{one['peak'] / 2**30:.3f}"
        is_same = plain is not None and seconds is not None and "70b" not in way
        times = f"{seconds / plain:.2f}" if is_same else ""
        costs.append([way, "fails" if seconds is None else f"{seconds:.3f}", times, peak])
    ours, theirs = errors_of(rows, "fake"), errors_of(rows, "memtracker")
    medians = ", ".join(
        f"{who} {statistics.median(errors):.3%} median, {max(errors):.3%} worst of {len(errors)}"
        for who, errors in (("ours", ours), ("MemTracker", theirs))
        if errors
    )
    return [
        f"{machine.sentence(about)}. Seconds are the processor's, of the fastest step. Aims: a "
        f"median error of the peak within {MOST_MEDIAN_ERROR:.0%} and none over {MOST_ERROR:.0%}; "
        f"a Llama-7B step within {MOST_TIMES_PLAIN} × `FakeTensorMode` alone and "
        f"{LEAST_TIMES_FASTER:.0f} × faster than `MemTracker`.",
        "## The peak against an H200's recordings",
        f"Errors: {medians}. MemTracker does not count workspaces of kernels.",
        machine.table(head, lines),
        "## A step of Llama 7B (bf16, AdamW, 2,048 tokens)",
        machine.table(["way", "step, s", "× plain", "peak, GiB"], costs),
    ]


def main() -> int:
    """Measure."""
    parser = machine.arguments(__doc__)
    parser.add_argument("--quick", action="store_true", help="few models, and no MemTracker at 7B")
    args = parser.parse_args()
    names = sorted(path.stem for path in RECORDINGS.glob("*.json"))
    # Two processes at a time: seconds are the processor's.
    with ThreadPoolExecutor(2) as pool:
        steps = pool.submit(of_llama, args.quick)
        rows = of_zoo(QUICK if args.quick else names)
        llama = steps.result()
    missed = missed_aims(rows, llama)
    about = machine.describe()
    result = {"machine": about, "zoo": rows, "llama": llama, "missed": missed}
    parts = parts_of(about, rows, llama)
    verdicts = [(one, False) for one in missed]
    # A quick run is a check and is not written.
    folder = None if args.quick else args.results
    return machine.finish("fake-engine", "Fake tensors", parts, verdicts, result, folder)


if __name__ == "__main__":
    sys.exit(main())
