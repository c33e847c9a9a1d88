"""Plans for twenty models at 60 % of what they need: each is proven, or nothing fits and why.

    python bench/conformance/plan_zoo.py [--only MODEL …] [--results FOLDER]

A model passes where its plan was run on the simulated GPU and every allocation succeeded, or where
nothing that was tried fits, the least need is stated with its changes, and it is above the limit.
Exit status 1 when a model does neither. Programs are in `bench/programs/plan`.
"""

from __future__ import annotations

import argparse
import sys
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


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="*", choices=PROGRAMS, default=list(PROGRAMS))
    parser.add_argument("--results", type=Path, help="folder for the results")
    args = parser.parse_args()
    rows, found, missed = [], {}, []
    for model in args.only:
        try:
            found[model] = plan_at_share(SHARE, GPU, PROGRAMS[model], model)
        except RuntimeError as error:
            missed.append(f"{model}: {error}")
            print(missed[-1], flush=True)
            continue
        rows.append(row(model, found[model]))
        print(rows[-1], flush=True)
        if not passes(found[model]):
            missed.append(f"{model}: neither a plan that was proven nor a floor above the limit")
    about = machine.describe()
    text = "\n".join(
        [
            "# Plans for twenty models",
            "",
            f"`bench/conformance/plan_zoo.py` planned for {SHARE:.0%} of the reserved bytes of "
            "each unchanged program, on a simulated H200, with nothing in the cache. *With* is "
            "what the program needs with the plan where memory is plenty; *time* is the estimated "
            "time of a step. A plan that needs more than the limit was proven on a GPU with the "
            "limit: torch frees cached blocks before it gives up.",
            "",
            machine.sentence(about),
            "",
            machine.table(HEAD, rows),
            "",
            f"{len(args.only) - len(missed)} of {len(args.only)} models have a plan that was run "
            "on the simulated GPU, or a floor above the limit.",
            *(f"- {one}" for one in missed),
        ]
    )
    print(text)
    if args.results:
        machine.write("plan-zoo", {"machine": about, "plans": found}, text, args.results)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
