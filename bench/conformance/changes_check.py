"""Peaks of a small GPT with every change of `--with`: simulated, and measured on a GPU.

    python bench/conformance/changes_check.py --estimate FILE   # anywhere: no GPU is needed
    python bench/conformance/changes_check.py --run FILE        # on the GPU, after `--estimate`
    python bench/conformance/changes_check.py --table FILE      # Markdown, from both

`--estimate` writes the simulated peaks to FILE. `--run` runs the same program with each change, two
at a time (so times of steps are a guide), adds what torch itself says of the peaks, and exits with
1 where a peak of allocated bytes is more than half a percent off. `fsdp` needs several GPUs:
`--run` tries it where there are as many. The program is `bench/programs/plan/small_gpt.py`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from plan_at_share import ROOT
from plan_at_share import floodmark as floodmark_command
from plan_table import MIB, machine

import floodmark

PROGRAM = "bench/programs/plan/small_gpt.py"
CHANGES = (
    "",
    "fused",
    "foreach=off",
    "free-gradients",
    "chunked-loss=8",
    "checkpoint=6",
    "checkpoint=selective",
    "optimizer-in-backward",
    "offload-optimizer-states",
    "offload-activations",
    "offload-activations=async",
    "autocast=bf16",
    "optimizer-states=8bit",
    "optimizer-states=paged-8bit",
    "bf16-parameters",
    "optimizer=adafactor",
    "optimizer=muon",
    "adapters=lora:16",
    "adapters=dora:16",
    "adapters=qlora:16",
    "compile",
    "fsdp=2",
)
STEPS = 3
TIMED_STEPS = 8
#: The share by which a measured peak may differ.
TOLERANCE = 0.005


def words_of(change: str) -> list[str]:
    """The words of a command line that apply a change."""
    return ["--with", change] if change else []


def estimate(change: str, gpu: str) -> dict[str, Any]:
    """The peaks on the simulated GPU."""
    with tempfile.TemporaryDirectory() as folder:
        words = ["estimate", "--json", "--quiet", "--gpu", gpu, "-o", f"{folder}/a.flood"]
        done = floodmark_command(*words, *words_of(change), PROGRAM)
    if not done.stdout:
        return {"failed": done.stderr[-500:]}
    found = json.loads(done.stdout)
    reasons = [one["reason"] for one in found["changes"] if one["reason"]]
    if reasons or not found["fits"]:
        return {"failed": (reasons or [found["error"]])[0]}
    return {name: found[name] for name in ("peak_allocated", "peak_reserved")}


def run(change: str) -> dict[str, Any]:
    """The peaks on the GPU, as torch counts them."""
    launcher = ["-m", "torch.distributed.run", "--nproc-per-node", change[5:]]
    is_of_ranks = change.startswith("fsdp=")
    return measure_program(
        change, PROGRAM, steps=TIMED_STEPS, launcher=launcher if is_of_ranks else []
    )


def measure_program(
    change: str, *program: str, steps: int, launcher: Sequence[str] = ()
) -> dict[str, Any]:
    """Peaks, seconds for each step and the loss that a program writes with `--times`."""
    with tempfile.TemporaryDirectory() as folder:
        times = Path(folder) / "times.json"
        words = ["-m", "floodmark", "run", "-q", "-o", f"{folder}/a.flood", *words_of(change)]
        words += [*program, "--steps", str(steps), "--times", str(times)]
        command = [sys.executable, *launcher, *words]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if not times.exists():
            return {"failed": done.stderr[-500:]}
        about = json.loads(times.read_text())
        reasons = [one["reason"] for one in changes_in(Path(folder)) if one["reason"]]
    if reasons:
        return {"failed": reasons[0]}
    allocated, reserved = about["peaks"]
    return {
        "peak_allocated": allocated,
        "peak_reserved": reserved,
        "seconds": statistics.median(about["seconds"][3:]),
        "loss": about["losses"][0] if "losses" in about else about["loss"],
    }


def changes_in(folder: Path) -> list[dict[str, Any]]:
    """The changes in the trace of a recorded program, with what they were applied to."""
    trace = next(iter(sorted(folder.glob("*.flood"))), None)
    return [] if trace is None else floodmark.Trace.open(trace).header.get("changes", [])


def gpus() -> int:
    """The number of GPUs of this machine."""
    command = [sys.executable, "-c", "import torch; print(torch.cuda.device_count())"]
    return int(subprocess.run(command, capture_output=True, text=True).stdout or 0)


def share_off(row: dict[str, Any]) -> float | None:
    """The relative difference of the measured peak of allocated bytes; None if one is missing."""
    simulated, measured = row.get("simulated", {}), row.get("measured", {})
    if "peak_allocated" not in simulated or "peak_allocated" not in measured:
        return None
    share: float = measured["peak_allocated"] / simulated["peak_allocated"] - 1
    return share


def table(rows: dict[str, Any]) -> None:
    """Simulated against measured, as Markdown."""
    cells = []
    for change, row in rows.items():
        simulated, measured = row.get("simulated", {}), row.get("measured", {})

        def pair(key: str, of: tuple[dict[str, Any], ...] = (simulated, measured)) -> str:
            return " / ".join(f"{one[key] / MIB:,.1f}" if key in one else "–" for one in of)

        share = share_off(row)
        off = "–" if share is None else f"{share:+.3%}"
        time = f"{measured['seconds'] * 1e3:.1f}" if "seconds" in measured else "–"
        loss = f"{measured['loss']:.4f}" if "loss" in measured else "–"
        name = f"`{change}`" if change else "none"
        cells.append([name, pair("peak_allocated"), off, pair("peak_reserved"), time, loss])
    allocated, reserved = (
        f"{what}, simulated / measured, MiB" for what in ("allocated", "reserved")
    )
    print(machine.table(["change", allocated, "off", reserved, "step, ms", "loss"], cells))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--estimate", type=Path, metavar="FILE", help="simulate, without a GPU")
    parser.add_argument("--run", type=Path, metavar="FILE", help="run on the GPU")
    parser.add_argument("--table", type=Path, metavar="FILE", help="print a table of both")
    parser.add_argument("--gpu", default="h200")
    parser.add_argument("--only", nargs="*", choices=CHANGES, default=CHANGES)
    args = parser.parse_args()
    path = args.estimate or args.run or args.table
    if path is None:
        parser.error("choose `--estimate`, `--run` or `--table`")
    rows: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    if args.estimate:
        with ThreadPoolExecutor(2) as pool:
            found = pool.map(lambda change: estimate(change, args.gpu), args.only)
            for change, simulated in zip(args.only, found, strict=True):
                rows.setdefault(change, {})["simulated"] = simulated
                print(f"{change or 'none'}: {simulated}", flush=True)
    if args.run:
        there = gpus()
        chosen = [one for one in args.only if not one.startswith("fsdp=") or there >= int(one[5:])]
        with ThreadPoolExecutor(2) as pool:
            for change, measured in zip(chosen, pool.map(run, chosen), strict=True):
                rows.setdefault(change, {})["measured"] = measured
                print(f"{change or 'none'}: {measured}", flush=True)
    rows = {change: rows[change] for change in CHANGES if change in rows}
    path.write_text(json.dumps(rows, indent=1) + "\n")
    if args.run or args.table:
        table(rows)
    shares = [share for share in map(share_off, rows.values()) if share is not None]
    return int(any(abs(share) > TOLERANCE for share in shares))


if __name__ == "__main__":
    sys.exit(main())
