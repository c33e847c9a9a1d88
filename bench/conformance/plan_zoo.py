"""Plans for twenty models at 60 % of their memory: each is proven, or nothing fits.

    python bench/conformance/plan_zoo.py [--only MODEL …] [--at-once N] [--results FOLDER]

A model passes where its plan was run on the simulated GPU and every allocation succeeded, or where
nothing that was tried fits, the least need is stated with its changes, and it is above the limit.
Exit status 1 when a model does neither. Programs are in `bench/programs/plan`. With `--at-once 4`
four models are planned at a time, each with a quarter of the processors.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import plan_table
from plan_at_share import plan_at_share

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import machine

SHARE = 0.6
GPU = "h200"
FOLDER = "bench/programs/plan"
SIX = ("llama", "gpt2", "vit", "unet", "mixtral", "bert")
OTHERS = (
    "resnet50",
    "resnet18_sgd",
    "convnext",
    "swin",
    "efficientnet",
    "gpt2_fp32",
    "qwen2",
    "llama_checkpointed",
    "bert_scaled",
    "t5",
    "wav2vec2",
    "lstm",
    "recommender",
    "encoder",
)
PROGRAMS = dict.fromkeys(SIX, f"{FOLDER}/train_model.py") | dict.fromkeys(
    OTHERS, f"{FOLDER}/zoo.py"
)
KEPT = (
    "capacity",
    "unchanged",
    "plan",
    "is_proven",
    "changes",
    "floor",
    "floor_try",
    "left_out",
    "seconds",
    "cpu_seconds",
)
HEAD = ["model", "plan", "limit, MiB", "without, MiB", "with, MiB", "time", "tries", "seconds"]


def passes(found: dict[str, Any]) -> bool:
    """Whether the answer is a plan that was proven, or a floor above the limit."""
    if found["plan"] is not None:
        return bool(found["is_proven"] and found["plan"]["fits"])
    least = found["floor_try"]
    return least is not None and least["needed"] == found["floor"] > found["capacity"]


def row(model: str, found: dict[str, Any]) -> list[str]:
    """The cells of a model."""
    best, least = found["plan"], found["floor_try"]
    shown = best or least
    plan = plan_table.named(shown["changes"])
    if best is None:
        plan = f"nothing that was tried fits; least with {plan}"
    mib = plan_table.mib
    return [
        model,
        plan,
        mib(found["capacity"]),
        mib(found["unchanged"]["needed"]),
        mib(shown["needed"]),
        plan_table.multiple(shown["slow_down"]),
        str(len(found["tries"])),
        f"{found['seconds']:.0f}",
    ]


def kept(found: dict[str, Any]) -> dict[str, Any]:
    """The stored part of an answer, without folders of this machine."""
    return {key: found[key] for key in KEPT} | {"tries": len(found["tries"])}


def take_processors(shares: multiprocessing.Queue[set[int]]) -> None:
    """Run this process, and all that it starts, on processors of its own."""
    os.sched_setaffinity(0, shares.get())


def planned(model: str) -> dict[str, Any] | str:
    """The plan of a model, or why there is none."""
    try:
        return plan_at_share(SHARE, GPU, PROGRAMS[model], model)
    except RuntimeError as error:
        return f"{model}: {error}"


def main() -> int:
    parser = machine.arguments(__doc__)
    parser.add_argument("--only", nargs="*", choices=PROGRAMS, default=list(PROGRAMS))
    parser.add_argument("--at-once", type=int, default=1, help="how many models at a time")
    args = parser.parse_args()
    processors = sorted(os.sched_getaffinity(0))
    shares: multiprocessing.Queue[set[int]] = multiprocessing.Queue()
    for at in range(args.at_once):
        shares.put(set(processors[at :: args.at_once]))
    rows, found, missed = [], {}, []
    with ProcessPoolExecutor(args.at_once, None, take_processors, (shares,)) as workers:
        for model, answer in zip(args.only, workers.map(planned, args.only), strict=True):
            if isinstance(answer, str):
                missed.append(answer)
                print(answer, flush=True)
                continue
            found[model] = answer
            rows.append(row(model, answer))
            print(rows[-1], flush=True)
            if not passes(answer):
                missed.append(f"{model}: neither a proven plan nor a floor above the limit")
            if args.results:
                finish(args, rows, found, missed)
    return finish(args, rows, found, missed)


def finish(
    args: argparse.Namespace, rows: list[list[str]], found: dict[str, Any], missed: list[str]
) -> int:
    """Print and write the plans so far; returns the exit status."""
    about = machine.describe()
    passed = sum(map(passes, found.values()))
    parts = [
        f"`bench/conformance/plan_zoo.py` planned for {SHARE:.0%} of the reserved bytes of each "
        "unchanged program, on a simulated H200, with nothing in the cache"
        + (f", {args.at_once} models at a time. " if args.at_once > 1 else ". ")
        + "*With* is what the program needs with the plan where memory is plenty; *time* is the "
        "estimated time of a step. A plan that needs more than the limit was proven on a GPU with "
        "the limit: torch frees cached blocks before it gives up.",
        machine.sentence(about),
        machine.table(HEAD, rows),
        f"{passed} of {len(args.only)} models have a plan that was run on the simulated GPU, or a "
        "floor above the limit.",
    ]
    result = {"machine": about, "plans": {model: kept(found[model]) for model in found}}
    verdicts = [(one, False) for one in missed]
    title = "Plans for twenty models"
    return machine.finish("plan-zoo", title, parts, verdicts, result, args.results)


if __name__ == "__main__":
    sys.exit(main())
