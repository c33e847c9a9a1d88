"""Is an H200 that is not there what a real one is? Measures models on both and compares.

On a machine with an H200: `python bench/phantom_h200.py --measure FILE`. On any other, with the
same versions of torch and the models: `python bench/phantom_h200.py --compare FILE`. Each case runs
in a process of its own, three steps; compared are all sizes of allocations in their order, by
torch's own history, and the peaks of allocated and of reserved bytes. With `--engine fake` the
estimates are those of fake tensors, and their peaks are compared.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


def measure_one(name: str, is_phantom: bool) -> dict[str, Any]:
    """In this process: three steps of a case."""
    if is_phantom:
        import floodmark

        with floodmark.phantom("h200"):
            import torch
    else:
        import torch

    sys.path.insert(0, str(HERE))
    import phantom_models

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
    result: dict[str, Any] = {
        "sizes": [event["size"] for t in traces for event in t if event["action"] == "alloc"],
        "peak_allocated": stats["allocated_bytes.all.peak"],
        "peak_requested": stats["requested_bytes.all.peak"],
        "peak_reserved": stats["reserved_bytes.all.peak"],
        "outside": total - free - stats["reserved_bytes.all.current"],
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name(),
        "seconds": time.perf_counter() - before,
    }
    if is_phantom:
        from floodmark import _played

        played = _played.played()
        account = played.phantom.account() if played else {}
        result["reads"] = len(account.get("reads", []))
        result["refused"] = [call["name"] for call in account.get("unsupported", [])]
    return result


def estimate_one(name: str) -> dict[str, Any]:
    """In this process: three steps of a case with fake tensors."""
    import floodmark

    before = time.perf_counter()
    with floodmark.estimate(engine="fake", gpu="h200") as est:
        import torch

        sys.path.insert(0, str(HERE))
        import phantom_models

        torch.manual_seed(0)
        _kept, step = phantom_models.CASES[name]()
        for _ in range(3):
            step()
        _, peak_allocated, _, peak_reserved = est.level("cuda")
    return {
        "sizes": [],
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


def row(name: str, real: dict[str, Any], phantom: dict[str, Any]) -> list[str]:
    """A case in the table."""
    if "error" in real or "error" in phantom:
        return [name, *[str(one.get("error", "ran"))[:80] for one in (real, phantom)], "", "", ""]
    same = real["sizes"] == phantom["sizes"]
    pairs = list(zip(real["sizes"], phantom["sizes"], strict=False))
    first = next((at for at, (a, b) in enumerate(pairs) if a != b), len(pairs))
    order = "the same" if same else f"differ from {first:,} on, {len(phantom['sizes']):,} here"
    cells = [name, f"{len(real['sizes']):,}", order]
    for figure in ("peak_allocated", "peak_reserved"):
        off = phantom[figure] - real[figure]
        words = "0" if off == 0 else f"{off:+,} ({off / real[figure]:+.2%})"
        cells.append(f"{real[figure] / 2**20:,.1f} MiB: {words}")
    rests = [f"{phantom['reads']} reads"] if phantom["reads"] else []
    return [*cells, ", ".join([*rests, *phantom["refused"]])]


def compare(truth: dict[str, Any], results: Path, only: str) -> None:
    """Run what was measured on a phantom, and write both down."""
    rows = []
    for name, real in truth["cases"].items():
        if only in name:
            rows.append(row(name, real, measure(name, "--phantom")))
            print(" | ".join(rows[-1]), flush=True)
    if only:
        return
    exact = sum(cells[2] == "the same" for cells in rows)
    head = ["case", "allocations", "their sizes", "peak allocated", "peak reserved", "rests on"]
    lines = [
        "# A phantom H200 against a real one",
        "",
        f"Real: {truth['device']}, torch {truth['torch']}, Python {truth['python']}.",
        f"Phantom: the same torch, Python {platform.python_version()}, no GPU.",
        "Three steps each, a process each; `bench/phantom_h200.py`.",
        "After a peak: how far the phantom is off.",
        "",
        f"{exact} of {len(rows)} cases allocate the same sizes in the same order.",
        "",
        "| " + " | ".join(head) + " |",
        "| " + " | ".join("---" for _ in head) + " |",
        *("| " + " | ".join(cells) + " |" for cells in rows),
        "",
    ]
    (results / "phantom-h200.md").write_text("\n".join(lines))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--measure", type=Path, help="measure on a real GPU, into this file")
    parser.add_argument("--compare", type=Path, help="compare a phantom with this file")
    parser.add_argument("--results", type=Path, default=HERE / "results")
    parser.add_argument("--only", default="", help="cases whose names have this in them")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--phantom", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(measure_one(args.one, args.phantom)))
        return
    if args.compare:
        compare(json.loads(args.compare.read_text()), args.results, args.only)
        return
    sys.path.insert(0, str(HERE))
    import phantom_models

    cases = {}
    for name in phantom_models.CASES:
        if args.only in name:
            cases[name] = measure(name)
            print(
                name, cases[name].get("error", f"{cases[name].get('seconds', 0):.1f} s"), flush=True
            )
    ran = [found for found in cases.values() if "error" not in found]
    facts = {key: ran[0][key] for key in ("torch", "device")} if ran else {}
    facts["python"] = platform.python_version()
    args.measure.write_text(json.dumps({**facts, "cases": cases}))


if __name__ == "__main__":
    main()
