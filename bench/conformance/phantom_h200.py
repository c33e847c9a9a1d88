"""Compares a simulated H200 with a real one: measures models on both.

On a machine with an H200: `python bench/conformance/phantom_h200.py --measure FILE`. On any other,
with the same versions of torch and the models: `python bench/conformance/phantom_h200.py --compare
FILE`. Each case runs in a process of its own, three steps; compared are all sizes of allocations in
their order, by torch's own history, and the peaks of allocated and of reserved bytes; with fake
tensors the peaks alone. `bench/results/phantom-h200.json` is a file that `--measure` wrote, so a
comparison needs no GPU.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import machine  # noqa: E402

ENGINES = ("phantom", "fake")


def measure_one(name: str, is_phantom: bool) -> dict[str, Any]:
    """In this process: three steps of a case."""
    if is_phantom:
        import floodmark

        with floodmark.phantom("h200"):
            import torch
    else:
        import torch

    sys.path.insert(0, str(HERE))
    import phantom_choices  # noqa: F401
    import phantom_models
    import phantom_sparse  # noqa: F401

    torch.manual_seed(0)
    torch.cuda.init()
    before = time.perf_counter()
    torch.cuda.memory._record_memory_history(enabled="all", context=None, max_entries=2_000_000)
    _kept, step = phantom_models.CASES[name]()
    for _ in range(3):
        step()
    torch.cuda.synchronize()
    traces = torch.cuda.memory._snapshot()["device_traces"]
    stats = torch.cuda.memory_stats()
    free, total = torch.cuda.mem_get_info()
    sizes = [event["size"] for t in traces for event in t if event["action"] == "alloc"]
    result: dict[str, Any] = {
        "allocations": len(sizes),
        "sizes_sha256": hashlib.sha256(json.dumps(sizes).encode()).hexdigest(),
        "peak_allocated": stats["allocated_bytes.all.peak"],
        "peak_requested": stats["requested_bytes.all.peak"],
        "peak_reserved": stats["reserved_bytes.all.peak"],
        "outside": total - free - stats["reserved_bytes.all.current"],
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name(),
        "seconds": time.perf_counter() - before,
    }
    if is_phantom:
        from floodmark.estimate.device import current_gpu

        gpu = current_gpu.current()
        if gpu is None:
            raise RuntimeError("no GPU is simulated")
        about = gpu.about(is_over=True)
        result["reads"] = len(about["reads"])
        result["refused"] = [call["name"] for call in about["unsupported"]]
    return result


def estimate_one(name: str) -> dict[str, Any]:
    """In this process: three steps of a case with fake tensors."""
    import floodmark

    before = time.perf_counter()
    with floodmark.estimate(engine="fake", gpu="h200") as est:
        import torch

        sys.path.insert(0, str(HERE))
        import phantom_choices  # noqa: F401
        import phantom_models
        import phantom_sparse  # noqa: F401

        torch.manual_seed(0)
        _kept, step = phantom_models.CASES[name]()
        for _ in range(3):
            step()
        _, peak_allocated, _, peak_reserved = est.level("cuda")
    return {
        "peak_allocated": peak_allocated,
        "peak_reserved": peak_reserved,
        "seconds": time.perf_counter() - before,
        "reads": len(json.loads(est.estimate.to_json())["reads"]),
        "refused": [],
    }


def measure(name: str, *flags: str) -> dict[str, Any]:
    """In a process of its own."""
    command = [sys.executable, __file__, "--one", name, *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no word"])[-1]
        return {"error": f"status {done.returncode}: {last[:300]}"}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def off(real: dict[str, Any], found: dict[str, Any], figure: str) -> str:
    """A peak, and how far an estimate is from it."""
    by = found[figure] - real[figure]
    return "0" if by == 0 else f"{by:+,} ({by / real[figure]:+.2%})"


def row(name: str, real: dict[str, Any], found: dict[str, dict[str, Any]]) -> list[str]:
    """A case in the table: the real peaks, and how far each engine is from them."""
    if "error" in real:
        return [name, f"failed: {real['error'][:80]}"]
    cells = [name]
    for figure in ("peak_allocated", "peak_reserved"):
        cells.append(f"{real[figure] / 2**20:,.1f} MiB")
        for engine in ENGINES:
            has_failed = "error" in found[engine]
            cells.append("failed" if has_failed else off(real, found[engine], figure))
    phantom = found["phantom"]
    is_same = phantom.get("sizes_sha256") == real["sizes_sha256"]
    rests = ["the same sizes in the same order"] if is_same else []
    for engine in ENGINES:
        if reads := found[engine].get("reads"):
            rests.append(f"{reads} values that {engine} did not know")
        if "error" in found[engine]:
            rests.append(f"{engine}: {found[engine]['error'][:120]}")
    return [*cells, ", ".join([*rests, *phantom.get("refused", [])])]


def compare(truth: dict[str, Any], results: Path | None, only: str) -> None:
    """Estimate the measured cases with both engines, and write the comparison."""
    rows = []
    chosen = {name: real for name, real in truth["cases"].items() if only in name}
    with ThreadPoolExecutor(max(1, (os.cpu_count() or 2) // 2)) as pool:
        estimates = {
            (name, engine): pool.submit(measure, name, f"--{engine}")
            for name in chosen
            for engine in ENGINES
        }
        for name, real in chosen.items():
            found = {engine: estimates[name, engine].result() for engine in ENGINES}
            rows.append(row(name, real, found))
            print(" | ".join(rows[-1]), flush=True)
    if only:
        return
    head = ["case", "peak allocated", *ENGINES, "peak reserved", *ENGINES, "rests on"]
    parts = [
        f"Real: {truth['device']}, torch {truth['torch']}, Python {truth['python']}. Estimates: "
        f"the same torch, Python {platform.python_version()}, no GPU. Three steps each, a process "
        "each; `bench/conformance/phantom_h200.py`. After a peak of the real GPU: how far each "
        "engine is off, in bytes.",
        machine.table(head, rows, texts=True),
        "`resnet101_fp16_channels_last` scales its loss: on the real GPU its first steps overflow "
        "and are skipped, and the optimizer has no state yet; an estimate has it from step 0 on.",
    ]
    title = "A simulated H200 against a real one"
    machine.finish("phantom-h200", title, parts, [], None, results)


def main() -> None:
    parser = machine.arguments(__doc__)
    parser.add_argument("--measure", type=Path, help="measure on a real GPU, into this file")
    parser.add_argument("--compare", type=Path, help="compare a phantom with this file")
    parser.add_argument("--only", default="", help="cases whose names have this in them")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--phantom", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--fake", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        found = estimate_one(args.one) if args.fake else measure_one(args.one, args.phantom)
        print(json.dumps(found))
        return
    if args.compare:
        compare(json.loads(args.compare.read_text()), args.results, args.only)
        return
    sys.path.insert(0, str(HERE))
    import phantom_choices  # noqa: F401
    import phantom_models
    import phantom_sparse  # noqa: F401

    names = [name for name in phantom_models.CASES if args.only in name]
    # Concurrent processes change the memory outside torch, which no table shows.
    with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
        cases = dict(zip(names, pool.map(measure, names), strict=True))
    for name, found in cases.items():
        print(name, found.get("error", f"{found.get('seconds', 0):.1f} s"), flush=True)
    ran = [found for found in cases.values() if "error" not in found]
    facts = {key: ran[0][key] for key in ("torch", "device")} if ran else {}
    facts["python"] = platform.python_version()
    args.measure.write_text(json.dumps({**facts, "cases": cases}, indent=1) + "\n")


if __name__ == "__main__":
    main()
