"""How long `floodmark fit` and `floodmark plan` take, as a multiple of one estimate.

    python bench/fit_time.py [--quick] [--results FOLDER]

All rows run GPT-2 (`programs/plan/gpt2.py`), with nothing in the cache: one estimate, the search of
the largest batch, and a plan, with a warm process that forks for each try and with a new process
for each. What both ways answer must be the same. Exit status 1 when it is not, or when `fit` takes
more than three estimates.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import machine

PROGRAM = str(Path(__file__).resolve().parent / "programs" / "plan" / "gpt2.py")
MOST_ESTIMATES = 3.0
GPU = ["--gpu", "rtx4090", "--steps", "2"]
FIT = ["fit", "--json", "--no-cache", *GPU, "--vary", "BATCH=1..64", PROGRAM, "--batch", "{BATCH}"]
PLAN = ["plan", "--json", "--no-cache", *GPU, "--memory", "4GiB", PROGRAM]


def timed(words: list[str], *, warm: bool) -> tuple[float, dict[str, Any]]:
    """Seconds of a command, and its answer."""
    environment = {**os.environ, "FLOODMARK_WARM_PROCESS": "1" if warm else "0"}
    command = [sys.executable, "-m", "floodmark", *words]
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment, cwd=folder, timeout=1800
        )
        seconds = time.perf_counter() - began
    if not done.stdout.strip():
        raise SystemExit(f"{' '.join(words)} failed:\n{done.stderr[-3000:]}")
    return seconds, json.loads(done.stdout)


#: What depends on the time that was measured; so does the order of the runs.
TIMES = {"seconds", "cpu_seconds", "step_time", "slow_down", "runs"}


def without_times(answer: Any) -> Any:
    """The answer without how long anything took."""
    if isinstance(answer, dict):
        return {key: without_times(value) for key, value in answer.items() if key not in TIMES}
    return [without_times(one) for one in answer] if isinstance(answer, list) else answer


def main() -> int:
    parser = machine.arguments(__doc__)
    parser.add_argument("--quick", action="store_true", help="without the rows of `plan`")
    args = parser.parse_args()
    one, _ = timed(["estimate", "--json", *GPU, PROGRAM, "--batch", "4"], warm=False)
    rows, verdicts = [["`estimate`", "1", f"{one:.1f}", "1.0"]], []
    seconds = {"estimate": one}
    for name, words in (("fit", FIT), ("plan", PLAN))[: 1 if args.quick else 2]:
        found = {}
        for way, is_warm in (("a warm process", True), ("new processes", False)):
            took, found[way] = timed(words, warm=is_warm)
            seconds[f"{name}, {way}"] = took
            tries = str(len(found[way]["tries"]))
            rows.append([f"`{name}`, {way}", tries, f"{took:.1f}", f"{took / one:.1f}"])
            print(rows[-1], flush=True)
        first, second = map(without_times, found.values())
        verdicts.append((f"both ways of `{name}` answer the same", first == second))
    ratio = seconds["fit, a warm process"] / one
    verdicts.append(
        (f"`fit` takes {ratio:.1f} estimates (at most {MOST_ESTIMATES:g})", ratio <= MOST_ESTIMATES)
    )
    about = machine.describe()
    head = ["", "tries", "seconds", "× one estimate"]
    parts = [
        "GPT-2 of transformers on a simulated RTX 4090, with nothing in the cache.",
        machine.sentence(about),
        machine.table(head, rows),
    ]
    result = {"machine": about, "seconds": seconds}
    return machine.finish(
        "fit-time", "Time of `fit` and `plan`", parts, verdicts, result, args.results
    )


if __name__ == "__main__":
    sys.exit(main())
