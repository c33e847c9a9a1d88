"""What recording costs: the same training steps, untraced and under each recorder.

    python bench/overhead.py --device cpu
    python bench/overhead.py --device cuda

Within one process the recorders take turns, in a new random order each round, each for a few steps;
the first steps of a turn are not counted, nor are start and stop. What disturbs a step makes it
longer, never shorter, so a turn counts by its best step, and a recorder by the median of its turns.
Recorders that leave something behind in the process (`torch.profiler`) or take long run in a second
process with untraced steps of its own to compare with. Every figure is a ratio to the untraced
steps of the same process. These are taken in two parts, which should be equal: by how much they are
not is the noise.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import machine


@dataclass(frozen=True)
class Case:
    """A workload, and how often it runs."""

    name: str
    batch: int
    length: int
    bf16: bool
    rounds: int
    warm: int
    timed: int
    slow_rounds: int
    budget_percent: float
    config: dict[str, int] = field(default_factory=dict)


NARROW = {"heads": 4, "width": 128, "vocabulary": 8192}
CASES = {
    "cpu": [
        Case("GPT-2 small, batch 1 × 64", 1, 64, False, 8, 1, 3, 2, 5.0),
        Case("a GPT of width 128, batch 1 × 64", 1, 64, False, 40, 2, 4, 4, 5.0, NARROW),
    ],
    "cuda": [
        Case("CPU-bound, batch 1 × 64", 1, 64, False, 80, 2, 4, 3, 5.0),
        Case("GPU-bound, batch 16 × 1024, bf16", 16, 1024, True, 20, 2, 4, 2, 0.5),
    ],
}
UNTRACED = "untraced"
AGAIN = "untraced, again"
FULL = "floodmark"
HISTORY_ALL = "memory history, Python stacks, all"


def recorders_of(group: str, device: str) -> dict[str, Any]:
    import recorders

    if group == "slow":
        return {
            UNTRACED: recorders.untraced,
            "asking at every layer (hooks)": recorders.layer_hooks,
            "torch.profiler, memory and stacks": recorders.profiler,
            "asking after every operator (MemoryTracker)": recorders.operator_mode,
        }
    chosen = {
        UNTRACED: recorders.untraced,
        FULL: recorders.floodmark(FULL),
        "floodmark, no stacks": recorders.floodmark("floodmark, no stacks", stacks=False),
        AGAIN: recorders.untraced,
        "floodmark, with ops": recorders.floodmark("floodmark, with ops", ops=True),
    }
    if device == "cuda":
        chosen[HISTORY_ALL] = recorders.history("all")
        chosen["memory history, Python stacks, alloc"] = recorders.history("alloc")
    return chosen


def measure(case: Case, device: str, group: str, layers: int) -> dict[str, Any]:
    """Seconds of every timed step of every recorder of the group."""
    import gpt2
    import recorders

    training = gpt2.Training(
        gpt2.Config(layers=layers, **case.config),
        batch=case.batch,
        length=case.length,
        device=device,
        bf16=case.bf16,
    )
    rounds = case.slow_rounds if group == "slow" else case.rounds
    for _ in range(3):
        training.step()
    chosen = recorders_of(group, device)
    order = list(chosen)
    shuffle = random.Random(0).shuffle
    wall: dict[str, list[float]] = {name: [] for name in chosen}
    cpu: dict[str, list[float]] = {name: [] for name in chosen}
    for number in range(rounds):
        print(f"  {case.name}: round {number + 1} of {rounds}", file=sys.stderr)
        shuffle(order)
        for name in order:
            gc.collect()
            with chosen[name](training.model):
                for _ in range(case.warm):
                    training.step()
                training.wait()
                for _ in range(case.timed):
                    cpu_before, before = time.process_time(), time.perf_counter()
                    training.step()
                    training.wait()
                    wall[name].append(time.perf_counter() - before)
                    cpu[name].append(time.process_time() - cpu_before)
            training.wait()
    return {"wall": wall, "cpu": cpu, "recordings": recorders.last_summary}


def percent(traced: float, untraced: float) -> float:
    return round((traced / untraced - 1) * 100, 2)


def turns(seconds: list[float], timed: int) -> float:
    """The median of the best step of each turn."""
    return statistics.median(min(seconds[at : at + timed]) for at in range(0, len(seconds), timed))


def both(measured: dict[str, list[float]]) -> list[float]:
    """All untraced steps."""
    return measured[UNTRACED] + measured.get(AGAIN, [])


def compare(measured: dict[str, Any], timed: int) -> list[dict[str, Any]]:
    """One row for each recorder: its ratios to the untraced steps."""
    wall, cpu = measured["wall"], measured["cpu"]
    return [
        {
            "recorder": name,
            "turns": len(seconds) // timed,
            "step_ms": round(turns(seconds, timed) * 1e3, 3),
            "percent": percent(turns(seconds, timed), turns(both(wall), timed)),
            "median_percent": percent(statistics.median(seconds), statistics.median(both(wall))),
            "cpu_percent": percent(turns(cpu[name], timed), turns(both(cpu), timed)),
            "recording": measured["recordings"].get(name),
        }
        for name, seconds in wall.items()
    ]


def in_process(
    case: Case, device: str, group: str, layers: int, threads: int | None
) -> dict[str, Any]:
    """The same in a process of its own."""
    with tempfile.NamedTemporaryFile(suffix=".json") as answer:
        command = [sys.executable, __file__, "--device", device, "--layers", str(layers)]
        if threads:
            command += ["--threads", str(threads)]
        command += ["--worker", json.dumps([asdict(case), group, answer.name])]
        subprocess.run(command, check=True)
        result: dict[str, Any] = json.loads(Path(answer.name).read_text())
        return result


def worker(arguments: str, device: str, layers: int) -> None:
    fields, group, answer = json.loads(arguments)
    Path(answer).write_text(json.dumps(measure(Case(**fields), device, group, layers)))


def signed(value: float) -> str:
    return f"{value:+.1f} %"


def render(case: Case, rows: list[dict[str, Any]]) -> str:
    """The table of one case, and what the budget says."""
    head = ["recorder", "turns", "step, ms", "over untraced", "median of all steps", "CPU time"]
    cells = ["percent", "median_percent", "cpu_percent"]
    lines = []
    for row in rows:
        name = row["recorder"]
        shown = f"**{name}**" if name == FULL else name
        ratios = [signed(row[cell]) for cell in cells]
        lines.append([shown, str(row["turns"]), f"{row['step_ms']:.2f}", *ratios])
    text = f"## {case.name}\n\n{machine.table(head, lines)}\n"
    full = next(row for row in rows if row["recorder"] == FULL)
    made = full["recording"]
    if made and made["steps"]:
        text += (
            f"\nfloodmark recorded {made['events'] // made['steps']} events a step, "
            f"{made['bytes'] / made['events']:.1f} bytes each on disk; losses: "
            f"{', '.join(made['losses']) or 'none'}.\n"
        )
    for sentence, _ in verdicts(case, rows):
        text += f"\n- {sentence}"
    return text + "\n"


def verdicts(case: Case, rows: list[dict[str, Any]]) -> list[tuple[str, bool]]:
    """What the budgets say, and whether they are met; undecided where the noise is larger."""
    by_name = {row["recorder"]: row for row in rows}
    cost = by_name[FULL]["percent"]
    noise = abs(by_name[AGAIN]["percent"] - by_name[UNTRACED]["percent"])
    found = []
    limits = [(case.budget_percent, f"at most {signed(case.budget_percent)}")]
    if HISTORY_ALL in by_name and case.length == 64:
        third = by_name[HISTORY_ALL]["percent"] / 3
        limits.append((third, f"a third of torch's own recorder, {signed(third)}"))
    for limit, text in limits:
        met = cost <= limit
        word = "met" if met else "MISSED"
        if abs(cost - limit) < noise:
            word += ", but the noise is larger than what decides it"
        found.append(
            (f"budget: {text}; measured {signed(cost)} (noise {signed(noise)}): {word}", met)
        )
    return found


def main() -> int:
    parser = machine.arguments(__doc__)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--layers", type=int, default=12, help="fewer for a quick trial")
    parser.add_argument("--threads", type=int, help="of torch, on the CPU")
    parser.add_argument("--rounds", type=int, help="fewer for a quick trial")
    parser.add_argument("--strict", action="store_true", help="fail when a budget is missed")
    parser.add_argument("--skip-slow", action="store_true", help="leave out the slow recorders")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.threads:
        import torch

        torch.set_num_threads(args.threads)
    if args.worker:
        worker(args.worker, args.device, args.layers)
        return 0
    result: dict[str, Any] = {"machine": machine.describe(), "layers": args.layers, "cases": []}
    about = machine.sentence(result["machine"])
    text = (
        "# What recording costs\n\nTime of a training step (AdamW) over the untraced step of the "
        f"same run, each the median over the turns of a turn's best step.\n\n{about}\n"
    )
    missed = 0
    for case in CASES[args.device]:
        if args.rounds:
            case = Case(**{**asdict(case), "rounds": args.rounds, "slow_rounds": args.rounds})
        fast = in_process(case, args.device, "fast", args.layers, args.threads)
        rows = compare(fast, case.timed)
        slow: dict[str, Any] = {}
        if not args.skip_slow:
            slow = in_process(case, args.device, "slow", args.layers, args.threads)
            rows += [row for row in compare(slow, case.timed) if row["recorder"] != UNTRACED]
        result["cases"].append({"case": asdict(case), "rows": rows})
        shown = render(case, rows)
        print("\n" + shown)
        text += "\n" + shown
        missed += sum(not met for _, met in verdicts(case, rows))
    machine.write(f"overhead-{args.device}", result, text, args.results)
    return 1 if missed and args.strict else 0


if __name__ == "__main__":
    sys.exit(main())
