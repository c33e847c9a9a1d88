"""What `import floodmark` adds to `import torch`, and how large the wheel is.

python bench/import_time.py [--wheel dist/floodmark-….whl]
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from pathlib import Path

import machine

MOST_MILLISECONDS = 50.0
MOST_MEGABYTES = 40.0
ROOT = Path(__file__).resolve().parent.parent

CODE = """
import time
import {first}
before = time.perf_counter()
import {second}
print(time.perf_counter() - before)
"""


def milliseconds(first: str, second: str, runs: int) -> list[float]:
    """The times of the second import after the first, each in a new process."""
    times = []
    for _ in range(runs):
        code = CODE.format(first=first, second=second)
        ran = subprocess.run(
            [sys.executable, "-c", code], check=True, capture_output=True, text=True
        )
        times.append(float(ran.stdout) * 1e3)
    return times


def main() -> int:
    parser = machine.arguments(__doc__)
    parser.add_argument("--wheel", type=Path, help="the wheel; by default the one in dist/")
    parser.add_argument("--runs", type=int, default=9)
    args = parser.parse_args()
    after_torch = milliseconds("torch", "floodmark", args.runs)
    alone = milliseconds("sys", "floodmark", args.runs)
    torch_alone = milliseconds("sys", "torch", 3)
    wheels = [args.wheel] if args.wheel else sorted((ROOT / "dist").glob("floodmark-*.whl"))
    megabytes = wheels[-1].stat().st_size / 1e6 if wheels else None
    added = statistics.median(after_torch)
    verdicts = [
        (
            f"`import floodmark` adds {added:.1f} ms to `import torch` "
            f"(at most {MOST_MILLISECONDS:g} ms)",
            added <= MOST_MILLISECONDS,
        )
    ]
    if megabytes is not None:
        verdicts.append(
            (
                f"the wheel has {megabytes:.1f} MB (at most {MOST_MEGABYTES:g} MB)",
                megabytes <= MOST_MEGABYTES,
            )
        )
    rows = [
        [name, f"{statistics.median(times):.1f}", f"{min(times):.1f}"]
        for name, times in [
            ("`import floodmark` after `import torch`", after_torch),
            ("`import floodmark` alone", alone),
            ("`import torch` alone", torch_alone),
        ]
    ]
    about = machine.describe()
    parts = [machine.sentence(about), machine.table(["", "median, ms", "least, ms"], rows)]
    result = {
        "machine": about,
        "after_torch_ms": after_torch,
        "alone_ms": alone,
        "torch_ms": torch_alone,
        "wheel_megabytes": megabytes,
    }
    title = "Import time and size"
    return machine.finish("import-time", title, parts, verdicts, result, args.results)


if __name__ == "__main__":
    sys.exit(main())
