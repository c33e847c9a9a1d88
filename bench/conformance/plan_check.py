"""Plans for models at a share of what they need, and runs the plans on a GPU.

    python bench/conformance/plan_check.py --plan FOLDER            # anywhere: no GPU is needed
    python bench/conformance/plan_check.py --run FOLDER             # on the GPU
    python bench/conformance/plan_check.py --table FOLDER           # Markdown, from both

`--plan` writes `MODEL-SHARE.json` for each: what `floodmark plan` answers with `--memory` at that
share (0.6) of the reserved bytes of the unchanged program, and the CUDA context. `--run` runs each
model with `floodmark run`, as it is and with each plan, and writes `MODEL-SHARE.run.json`: peaks,
and the median time of a step. Programs are in `bench/programs/plan`; with `--unseen`, the ten to
which no rule of a plan was fitted.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import plan_table
from plan_at_share import floodmark, plan_at_share

FOLDER = "bench/programs/plan"
#: The models of each program.
MODELS = {
    "train_model.py": ("llama", "gpt2", "vit", "unet", "mixtral", "bert"),
    "unseen.py": (
        "opt",
        "gemma3",
        "modernbert",
        "whisper",
        "dinov2",
        "densenet",
        "deeplab",
        "mixer",
        "wavenet",
        "autoencoder",
    ),
}
#: Steps of a run on a GPU: the first ones warm up.
TIMED_STEPS = 12


def key_of(model: str, share: float) -> str:
    """What the answers for a model are stored under."""
    return f"{model}-{share:.2f}"


def plan(program: str, model: str, share: float, gpu: str, folder: Path) -> None:
    """Plan for one model."""
    key = key_of(model, share)
    try:
        found = plan_at_share(share, gpu, f"{FOLDER}/{program}", model)
    except RuntimeError as error:
        print(f"{key}: {error}", file=sys.stderr)
        return
    plan_table.store(folder, key, "", found)
    changes = " + ".join(found["plan"]["changes"]) if found["plan"] else "no plan"
    memory = plan_table.mib(found["capacity"])
    seconds = f"{found['seconds']:.0f} s, {found['cpu_seconds']:.0f} s of processors"
    print(f"{key}: {memory} MiB, {changes}, {seconds}", flush=True)


def measure(program: str, model: str, changes: list[str]) -> dict[str, Any] | None:
    """Peaks and the time of a step on the GPU."""
    with tempfile.TemporaryDirectory() as temporary:
        times = Path(temporary) / "times.json"
        words = [word for change in changes for word in ("--with", change)]
        words += ["-q", "-o", str(Path(temporary) / "run.flood"), f"{FOLDER}/{program}", model]
        words += ["--steps", str(TIMED_STEPS), "--times", str(times)]
        done = floodmark("run", *words)
        if not times.exists():
            print(f"{model} {changes}: failed\n{done.stderr[-2000:]}", flush=True)
            return None
        about = json.loads(times.read_text())
    return {
        "peak_allocated": about["peaks"][0],
        "peak_reserved": about["peaks"][1],
        "seconds": statistics.median(about["seconds"][2:]),
    }


def run(program: str, model: str, shares: list[float], folder: Path) -> None:
    """Run one model as it is and with its plans, on the GPU."""
    plans = {}
    for share in shares:
        found = plan_table.stored_in(folder, key_of(model, share))("")
        if found is None or found["plan"] is None:
            print(f"{key_of(model, share)}: there is no plan to run")
        else:
            plans[share] = found["plan"]["changes"]
    unchanged = measure(program, model, []) if plans else None
    for share, changes in plans.items():
        measured = {"unchanged": unchanged, "plan": measure(program, model, changes)}
        if all(measured.values()):
            plan_table.store(folder, key_of(model, share), ".run", measured)
            print(f"{key_of(model, share)}: {json.dumps(measured)}", flush=True)


HEAD = [
    "limit, MiB",
    "plan",
    "allocated, predicted / measured, MiB",
    "reserved, predicted / measured, MiB",
    "step time, predicted / measured",
    "a step, GPU and host predicted / measured, ms",
    "seconds for the plan",
]


def rows_of(stored: plan_table.Stored) -> list[list[str]]:
    """Measured against predicted, for one model."""
    found, measured = stored(""), stored(".run")
    limit, seconds = plan_table.mib(found["capacity"]), f"{found['seconds']:.0f}"
    best = found["plan"]
    if best is None:
        least = f"nothing that was tried fits: {plan_table.mib(found['floor'])} MiB at least"
        return [[limit, least, "", "", "", "", seconds]]
    seen = measured["plan"] if measured else {}

    def pair(key: str) -> str:
        return f"{plan_table.mib(best[key])} / {plan_table.mib(seen.get(key))}"

    ratio = seen["seconds"] / measured["unchanged"]["seconds"] if measured else None
    times = f"{plan_table.multiple(best['slow_down'])} / {plan_table.multiple(ratio)}"
    steps = []
    for name, tried in (("unchanged", found["unchanged"]), ("plan", best)):
        time_of = tried["step_time"] or {"gpu_seconds": 0, "host_seconds": 0}
        expected = f"{1e3 * time_of['gpu_seconds']:.0f} and {1e3 * time_of['host_seconds']:.0f}"
        took = f"{1e3 * measured[name]['seconds']:.0f}" if measured else "?"
        steps.append(f"{name} {expected} / {took}")
    changes = plan_table.named(best["changes"])
    cells = [pair("peak_allocated"), pair("peak_reserved"), times, "; ".join(steps)]
    return [[limit, changes, *cells, seconds]]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--plan", type=Path, metavar="FOLDER", help="plan, on a simulated GPU")
    parser.add_argument("--run", type=Path, metavar="FOLDER", help="run the plans on a GPU")
    parser.add_argument("--table", type=Path, metavar="FOLDER", help="print a table of both")
    parser.add_argument("--gpu", default="h200")
    parser.add_argument("--unseen", action="store_true", help="the ten models of `unseen.py`")
    parser.add_argument("--share", type=float, nargs="*", default=[0.6])
    parser.add_argument("--only", nargs="*", metavar="MODEL")
    args = parser.parse_args()
    program = "unseen.py" if args.unseen else "train_model.py"
    models = [one for one in MODELS[program] if not args.only or one in args.only]
    for model in models:
        if args.plan:
            args.plan.mkdir(parents=True, exist_ok=True)
            for share in args.share:
                plan(program, model, share, args.gpu, args.plan)
        if args.run:
            run(program, model, args.share, args.run)
    if args.table:
        keys = [key_of(model, share) for model in models for share in args.share]
        plan_table.print_table(args.table, keys, HEAD, rows_of)


if __name__ == "__main__":
    main()
