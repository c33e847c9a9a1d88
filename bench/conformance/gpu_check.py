"""What needs a CUDA device: does floodmark say what torch says, to the byte?

    python bench/conformance/gpu_check.py [--only NAME …] [--results FOLDER]

Every check runs in a process of its own with a time limit, so that none hides another. Needs torch
with CUDA and floodmark, and nothing else. Exit status 1 when a check fails.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

BENCH = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(BENCH))

import machine  # noqa: E402

ROOT = BENCH.parent


@dataclass(frozen=True)
class Check:
    """A function of `gpu_checks.py` or of another module, and the settings under which it runs."""

    name: str
    function: str
    allocator: str = ""
    limit_seconds: int = 60
    env: dict[str, str] = field(default_factory=dict)
    module: str = "gpu_checks"


CHECKS = [
    Check("totals", "totals"),
    Check("totals, expandable segments", "totals", "expandable_segments:True"),
    Check("totals, rounding to powers of two", "totals", "roundup_power2_divisions:4"),
    Check("totals, max_split_size", "totals", "max_split_size_mb:32"),
    Check("forty steps without a pause", "busy_steps"),
    Check("cudaMallocAsync", "malloc_async", "backend:cudaMallocAsync"),
    Check("pluggable allocator", "pluggable"),
    Check("CUDA graphs", "cuda_graphs"),
    Check("CUDA graphs, expandable segments", "cuda_graphs", "expandable_segments:True"),
    Check("several streams", "streams"),
    Check("out of memory", "out_of_memory"),
    Check("before recording", "before_recording"),
    Check("before recording, expandable segments", "before_recording", "expandable_segments:True"),
    Check("lines and modules", "lines_and_modules"),
    Check("workspaces", "workspaces"),
    Check("start and stop", "start_and_stop"),
    Check("windows", "windows"),
    Check("windows, expandable segments", "windows", "expandable_segments:True"),
    Check("saved for backward", "saved_for_backward"),
    Check("five tools", "five_tools", limit_seconds=240),
    Check("stays asleep", "stays_asleep"),
    Check("a whole script", "whole_script", limit_seconds=90),
    Check("pools of CUDA graphs", "graph_pools", module="gpu_guide_checks"),
    Check("torch.compile", "compiled", limit_seconds=240, module="gpu_guide_checks"),
    Check("begins beside threads", "begins_beside_threads", module="gpu_guide_checks"),
]


@dataclass
class Verdict:
    """How a check went."""

    check: Check
    passed: bool
    facts: list[tuple[bool, str]]
    seconds: float


def run(check: Check) -> Verdict:
    """Run a check in a process of its own."""
    env = {**os.environ, **check.env}
    env.pop("PYTORCH_ALLOC_CONF", None)
    env.pop("PYTORCH_CUDA_ALLOC_CONF", None)
    if check.allocator:
        env["PYTORCH_CUDA_ALLOC_CONF"] = check.allocator
    code = (
        f"import sys, gpu_checks, {check.module} as checks; "
        f"sys.exit(gpu_checks.run(checks.{check.function}))"
    )
    before = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-X", "faulthandler", "-c", code],
        cwd=Path(__file__).parent,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        output, talk = process.communicate(timeout=check.limit_seconds)
        how = f"exit status {process.returncode}"
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, talk = process.communicate()
        how = f"not done after {check.limit_seconds} s"
    facts: list[tuple[bool, str]] = []
    for line in output.splitlines():
        if line.startswith("FACTS "):
            found = json.loads(line[6:].replace(f"{ROOT}/", ""))
            facts = [(bool(is_so), str(what)) for is_so, what in found]
    if process.returncode != 0 and all(is_so for is_so, _ in facts):
        facts.append((False, f"{how}: {' / '.join(talk.strip().splitlines()[-12:])[-1500:]}"))
    passed = process.returncode == 0 and bool(facts) and all(is_so for is_so, _ in facts)
    return Verdict(check, passed, facts, time.perf_counter() - before)


def show(verdict: Verdict) -> None:
    word = "PASS" if verdict.passed else "FAIL"
    print(f"{word}  {verdict.check.name}  ({verdict.seconds:.1f} s)")
    for is_so, what in verdict.facts:
        print(f"        {'  ' if is_so else '✗ '}{what}")
    sys.stdout.flush()


def table_of(verdicts: list[Verdict]) -> str:
    rows = []
    for verdict in verdicts:
        said = "; ".join(what if is_so else f"**✗ {what}**" for is_so, what in verdict.facts)
        word = "pass" if verdict.passed else "**FAIL**"
        rows.append([verdict.check.name, word, said.replace("|", "\\|")])
    return machine.table(["check", "verdict", "facts"], rows, texts=True)


def main() -> int:
    parser = machine.arguments(__doc__)
    parser.add_argument("--only", nargs="*", help="names of functions, or parts of names of checks")
    args = parser.parse_args()
    import torch

    if not torch.cuda.is_available():
        print(
            "error: there is no CUDA device here\n\nhint: `make test` needs none", file=sys.stderr
        )
        return 1
    chosen = [
        check
        for check in CHECKS
        if not args.only or any(one == check.function or one in check.name for one in args.only)
    ]
    verdicts = []
    for check in chosen:
        verdicts.append(run(check))
        show(verdicts[-1])
    about = machine.describe()
    result = {
        "machine": about,
        "checks": [
            {
                "name": verdict.check.name,
                "allocator": verdict.check.allocator,
                "passed": verdict.passed,
                "seconds": round(verdict.seconds, 1),
                "facts": verdict.facts,
            }
            for verdict in verdicts
        ],
    }
    passed = sum(verdict.passed for verdict in verdicts)
    parts = [
        machine.sentence(about),
        f"{passed} of {len(verdicts)} checks pass.",
        table_of(verdicts),
    ]
    title = "What floodmark says and what torch says"
    machine.finish("gpu-check", title, parts, [], result, args.results)
    return 0 if passed == len(verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
