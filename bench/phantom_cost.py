"""What an estimate costs: large models on a simulated GPU, with seconds and host memory.

    python bench/phantom_cost.py --floodmark FOLDER

Runs `bench/programs/phantom/llama.py` and `fsdp2_70b.py` as `python -m floodmark estimate --json`
and writes down whether they fit, their peaks, the fastest step, the whole time, and the most memory
that the process had. Exit status 1 when one of the budgets is missed.
"""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import machine

HERE = Path(__file__).resolve().parent

#: Description, arguments of `estimate`, and whether it must fit.
ROWS = [
    ("Llama 7B, one GPU", ["llama.py", "7b"], True),
    ("Llama 70B, one GPU", ["llama.py", "70b"], False),
    ("Llama 70B, FSDP2, rank 0 of 64", ["--rank", "0", "--world", "64", "fsdp2_70b.py"], True),
    ("Llama 70B, FSDP2, rank 63 of 64", ["--rank", "63", "--world", "64", "fsdp2_70b.py"], True),
]
MOST_SECONDS, MOST_STEP_SECONDS, MOST_BYTES = 30.0, 1.0, 4_000_000_000


def run(words: list[str], floodmark: str) -> dict[str, Any]:
    """One estimate, in a process of its own."""
    *options, script = words if words[-1].endswith(".py") else words[:-1]
    arguments = [] if words[-1].endswith(".py") else words[-1:]
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "floodmark", "estimate", "--json", "--quiet"]
        command += ["--gpu", "h200", "-o", os.path.join(folder, "trace.flood"), *options]
        command += [str(HERE / "programs" / "phantom" / script), *arguments]
        environment = {**os.environ, "PYTHONPATH": floodmark, "HF_HUB_OFFLINE": "1"}
        before = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=600)
        seconds = time.perf_counter() - before
    if not done.stdout.strip():
        raise SystemExit(f"{' '.join(words)} failed:\n{done.stderr[-3000:]}")
    steps = [float(found) for found in re.findall(r"step: ([0-9.]+) s", done.stderr)]
    return {"answer": json.loads(done.stdout), "seconds": seconds, "steps": steps}


def main() -> int:
    parser = machine.arguments(__doc__)
    parser.add_argument("--floodmark", required=True, help="where the package lies")
    args = parser.parse_args()
    lines, missed = [], []
    for what, words, must_fit in ROWS:
        found = run(words, str(Path(args.floodmark).resolve()))
        # The highest of all children so far.
        memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
        answer, seconds = found["answer"], found["seconds"]
        fits = answer["fits"]
        device = max(answer["devices"], key=lambda one: one["peak_reserved"])
        fastest = min(found["steps"], default=0.0)
        step = f"{fastest:.2f}" if found["steps"] else ""
        cells = [what, "yes" if fits else "no"]
        cells += [f"{device[key] / 2**30:.3f}" for key in ("peak_allocated", "peak_reserved")]
        lines.append([*cells, step, f"{seconds:.1f}", f"{memory / 1e9:.2f}"])
        print(" | ".join(lines[-1]), flush=True)
        if fits is not must_fit:
            missed.append(f"{what}: fits {fits}, expected {must_fit}")
        if seconds > MOST_SECONDS or fastest > MOST_STEP_SECONDS or memory > MOST_BYTES:
            missed.append(f"{what}: {seconds:.1f} s, {fastest:.2f} s a step, {memory:,} bytes")
    head = ["model", "fits", "peak allocated, GiB", "peak reserved, GiB", "fastest step, s"]
    head += ["whole run, s", "most host memory so far, GB"]
    about = machine.describe()
    parts = [
        f"{machine.sentence(about)}. A simulated H200; bf16, AdamW, batch 1, 2,048 tokens (FSDP2: "
        "4,096 and checkpoints). Budgets: a step within 1 s, a run with its imports within 30 s, "
        "4 GB of host memory.",
        machine.table(head, lines),
    ]
    result = {"machine": about, "rows": [dict(zip(head, cells, strict=True)) for cells in lines]}
    verdicts = [(one, False) for one in missed]
    title = "What an estimate costs"
    return machine.finish("phantom-cost", title, parts, verdicts, result, args.results)


if __name__ == "__main__":
    sys.exit(main())
