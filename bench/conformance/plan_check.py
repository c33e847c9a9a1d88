"""Plans for six models at 60 % of what they need, and runs the plans on a GPU.

    python bench/conformance/plan_check.py --plan FOLDER            # anywhere: no GPU is needed
    python bench/conformance/plan_check.py --run FOLDER             # on the GPU
    python bench/conformance/plan_check.py --table FOLDER           # Markdown, from both

`--plan` writes `MODEL.json` for each: what `floodmark plan` answers with `--memory` at 60 % of the
reserved bytes of the unchanged program, and the CUDA context. `--run` runs each model twice with
`floodmark run`, as it is and with the plan, and writes `MODEL.run.json`: peaks and the median time
of a step. Programs are in `bench/programs/plan`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path

import plan_table
from plan_at_share import floodmark, plan_at_share

PROGRAM = "bench/programs/plan/train_model.py"
MODELS = ("llama", "gpt2", "vit", "unet", "mixtral", "bert")
SHARE = 0.6
#: Steps of a run on a GPU: the first ones warm up.
TIMED_STEPS = 12


def plan(model: str, gpu: str, folder: Path) -> None:
    """Plan for one model."""
    try:
        found = plan_at_share(SHARE, gpu, PROGRAM, model)
    except RuntimeError as error:
        print(f"{model}: {error}", file=sys.stderr)
        return
    plan_table.store(folder, model, "", found)
    changes = " + ".join(found["plan"]["changes"]) if found["plan"] else "no plan"
    memory = plan_table.mib(found["capacity"])
    seconds = f"{found['seconds']:.0f} s, {found['cpu_seconds']:.0f} s of processors"
    print(f"{model}: {memory} MiB, {changes}, {seconds}", flush=True)


def run(model: str, folder: Path) -> None:
    """Run one model as it is and with its plan, on the GPU."""
    found = plan_table.stored_in(folder, model)("")
    if found is None or found["plan"] is None:
        print(f"{model}: there is no plan to run")
        return
    measured = {}
    for name, changes in (("unchanged", []), ("plan", found["plan"]["changes"])):
        with tempfile.TemporaryDirectory() as temporary:
            times = Path(temporary) / "times.json"
            words = [word for change in changes for word in ("--with", change)]
            words += ["-q", "-o", str(Path(temporary) / "run.flood"), PROGRAM, model]
            words += ["--steps", str(TIMED_STEPS), "--times", str(times)]
            done = floodmark("run", *words)
            if not times.exists():
                print(f"{model}, {name}: failed\n{done.stderr[-2000:]}", flush=True)
                return
            about = json.loads(times.read_text())
            measured[name] = {
                "peak_allocated": about["peaks"][0],
                "peak_reserved": about["peaks"][1],
                "seconds": statistics.median(about["seconds"][2:]),
            }
    plan_table.store(folder, model, ".run", measured)
    print(f"{model}: {json.dumps(measured)}", flush=True)


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
    parser.add_argument("--only", nargs="*", choices=MODELS, default=MODELS)
    args = parser.parse_args()
    for model in args.only:
        if args.plan:
            args.plan.mkdir(parents=True, exist_ok=True)
            plan(model, args.gpu, args.plan)
        if args.run:
            run(model, args.run)
    if args.table:
        plan_table.print_table(args.table, MODELS, HEAD, rows_of)


if __name__ == "__main__":
    main()
