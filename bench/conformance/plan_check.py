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
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = "bench/programs/plan/train_model.py"
MODELS = ("llama", "gpt2", "vit", "unet", "mixtral", "bert")
SHARE = 0.6
STEPS = 3
#: Steps of a run on a GPU: the first ones warm up.
TIMED_STEPS = 12
MIB = 1 << 20


def floodmark(*words: str) -> subprocess.CompletedProcess[str]:
    """Run the program with this Python."""
    command = [sys.executable, "-m", "floodmark", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


def plan(model: str, gpu: str, folder: Path) -> None:
    """Plan for one model."""
    with tempfile.TemporaryDirectory() as traces:
        output = str(Path(traces) / "unchanged.flood")
        words = ("--gpu", gpu, "--steps", str(STEPS))
        done = floodmark("estimate", "--json", "--quiet", "-o", output, *words, PROGRAM, model)
    if not done.stdout:
        print(f"{model}: no estimate\n{done.stderr}", file=sys.stderr)
        return
    device = json.loads(done.stdout)["devices"][0]
    memory = int(SHARE * device["peak_reserved"]) + device["context"] + device["outside_torch"]
    began = time.monotonic()
    done = floodmark("plan", "--json", *words, "--memory", str(memory), PROGRAM, model)
    seconds = time.monotonic() - began
    if not done.stdout:
        print(f"{model}: no plan\n{done.stderr}", file=sys.stderr)
        return
    found = json.loads(done.stdout)
    found["seconds"] = round(seconds, 1)
    (folder / f"{model}.json").write_text(json.dumps(found, indent=1) + "\n")
    changes = " + ".join(found["plan"]["changes"]) if found["plan"] else "no plan"
    print(f"{model}: {memory / MIB:.0f} MiB, {changes}, {seconds:.0f} s", flush=True)


def run(model: str, folder: Path) -> None:
    """Run one model as it is and with its plan, on the GPU."""
    path = folder / f"{model}.json"
    found = json.loads(path.read_text()) if path.exists() else None
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
    (folder / f"{model}.run.json").write_text(json.dumps(measured, indent=1) + "\n")
    print(f"{model}: {json.dumps(measured)}", flush=True)


def table(folder: Path) -> None:
    """Measured against predicted, as Markdown."""
    print(
        "| model | limit, MiB | plan | allocated, predicted / measured, MiB "
        "| reserved, predicted / measured, MiB | step time, predicted / measured |"
    )
    print("|---|---:|---|---|---|---|")
    for model in MODELS:
        planned, measured = folder / f"{model}.json", folder / f"{model}.run.json"
        if not planned.exists():
            continue
        found = json.loads(planned.read_text())
        if found["plan"] is None:
            floor = found["floor"] / MIB
            print(f"| {model} | {found['capacity'] / MIB:,.0f} | none: floor {floor:,.0f} MiB ||||")
            continue
        run_of: dict[str, Any] = json.loads(measured.read_text()) if measured.exists() else {}
        print(f"| {model} | {found['capacity'] / MIB:,.0f} | {row(found['plan'], run_of)} |")


def row(best: dict[str, Any], run_of: dict[str, Any]) -> str:
    """The cells of one model."""

    def pair(key: str) -> str:
        seen = f"{run_of['plan'][key] / MIB:,.0f}" if run_of else "?"
        return f"{best[key] / MIB:,.0f} / {seen}"

    expected = "?" if best["slow_down"] is None else f"{best['slow_down']:.2f} ×"
    seen = "?"
    if run_of:
        seen = f"{run_of['plan']['seconds'] / run_of['unchanged']['seconds']:.2f} ×"
    changes = ", ".join(f"`{change}`" for change in best["changes"]) or "none needed"
    cells = (changes, pair("peak_allocated"), pair("peak_reserved"), f"{expected} / {seen}")
    return " | ".join(cells)


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
        table(args.table)


if __name__ == "__main__":
    main()
