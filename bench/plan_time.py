"""How much `floodmark plan` computes: processor seconds and runs, for three transformers.

    python bench/plan_time.py [--only NAME …] [--results FOLDER]

Nothing is in the cache. Processor seconds are those of the command and of all its processes. Exit
status 1 when a program takes more than its aim, or more than a dozen runs to a plan.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import machine

PROGRAMS = Path(__file__).resolve().parent / "programs"
MOST_RUNS = 12
HEAD = ["program", "limit", "CPU s", "aim", "seconds", "runs", "plan", "time"]


class Planned(NamedTuple):
    """A program, the GPU that it is planned for, and the most processor seconds."""

    words: tuple[str, ...]
    most: float


CASES = {
    "Qwen3, 12 layers, accumulated": Planned(
        ("--gpu", "rtx4090", "--memory", "5.7GiB", str(PROGRAMS / "qwen3_accumulated.py")), 60
    ),
    "GPT-2 small": Planned(
        ("--gpu", "rtx4090", "--memory", "4GiB", str(PROGRAMS / "plan" / "gpt2.py")), 30
    ),
    "Llama 7B": Planned(("--gpu", "rtx4090", str(PROGRAMS / "plan" / "llama_7b.py")), 60),
}


def processor_seconds() -> float:
    """Of all processes that this one started and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def planned(case: Planned) -> dict[str, Any]:
    """The answer of `floodmark plan`, with what it took."""
    command = [sys.executable, "-m", "floodmark", "plan", "--json", "--no-cache", *case.words]
    with tempfile.TemporaryDirectory() as folder:
        began, used = time.perf_counter(), processor_seconds()
        done = subprocess.run(
            command, capture_output=True, text=True, cwd=folder, env=dict(os.environ), timeout=1800
        )
        seconds, cpu_seconds = time.perf_counter() - began, processor_seconds() - used
    if not done.stdout.strip():
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-3000:]}")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer | {"seconds": seconds, "cpu_seconds": cpu_seconds}


def row(name: str, case: Planned, found: dict[str, Any]) -> list[str]:
    """The cells of a program."""
    plan = found["plan"]
    shown = plan or found["floor_try"]
    changes = ", ".join(f"`{change}`" for change in shown["changes"]) or "(none)"
    slow_down = shown["slow_down"]
    return [
        name,
        f"{found['capacity'] / 2**30:.2f} GiB",
        f"{found['cpu_seconds']:.0f}",
        f"{case.most:.0f}",
        f"{found['seconds']:.0f}",
        str(len(found["runs"])),
        changes if plan else f"nothing fits; least, {shown['needed'] / 2**30:.2f} GiB: {changes}",
        "?" if slow_down is None else f"{slow_down:.2f} ×",
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="*", choices=CASES, default=list(CASES))
    parser.add_argument("--results", type=Path, help="folder for the results")
    args = parser.parse_args()
    rows, verdicts, kept = [], [], {}
    for name in args.only:
        case = CASES[name]
        found = planned(case)
        rows.append(row(name, case, found))
        print(rows[-1], flush=True)
        runs, used = len(found["runs"]), found["cpu_seconds"]
        verdicts.append((f"{name}: at most {case.most:.0f} CPU seconds", used <= case.most))
        if found["plan"] is not None:
            verdicts.append((f"{name}: at most {MOST_RUNS} runs to the plan", runs <= MOST_RUNS))
        kept[name] = {
            key: found[key] for key in ("plan", "is_proven", "runs", "seconds", "cpu_seconds")
        }
    about = machine.describe()
    text = "\n".join(
        [
            "# Time of `plan`",
            "",
            "Three transformers on a simulated RTX 4090, with nothing in the cache. *Runs* are all "
            "runs of the program, with the proof of the plan; *time* is the estimated time of a "
            "step.",
            "",
            machine.sentence(about),
            "",
            machine.table(HEAD, rows),
            "",
            *(f"- {what}: {'met' if met else 'MISSED'}" for what, met in verdicts),
        ]
    )
    print(text)
    if args.results:
        machine.write("plan-time", {"machine": about, "plans": kept}, text, args.results)
    return 0 if all(met for _, met in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
