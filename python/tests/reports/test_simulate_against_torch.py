"""The simulated allocator against torch's own, which runs on a simulated GPU.

A program that allocates and frees at random is recorded with the default settings; under others it
is run again, and simulated from the one recording. Both must come to the same bytes. This is so
with every version of torch, since the rules of each are its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.phantoms import needs_cuda_build

pytestmark = needs_cuda_build

PROGRAM = """
import random, sys, torch
random.seed(int(sys.argv[1]))
live, total = [], 0
for _ in range(3000):
    if live and (random.random() < 0.47 or total > 6 << 30):
        total -= live.pop(random.randrange(len(live))).numel()
        continue
    kind = random.random()
    if kind < 0.4:
        size = random.randint(1, 1 << 20)
    elif kind < 0.8:
        size = random.randint(1 << 20, 12 << 20)
    else:
        size = random.choice([10, 20, 40, 130, 300]) * (1 << 20) + random.randint(0, 1 << 20)
    live.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
    total += size
stats = torch.cuda.memory_stats()
print("peaks", stats["allocated_bytes.all.peak"], stats["reserved_bytes.all.peak"])
"""

SETTINGS = [
    "expandable_segments:True",
    "max_split_size_mb:64",
    "roundup_power2_divisions:8",
    "roundup_power2_divisions:[64:8,1024:4,>:1],max_split_size_mb:200",
]


def floodmark(*words: str, settings: str = "", status: int = 0) -> subprocess.CompletedProcess[str]:
    """A command, with the allocator's settings."""
    environment = {**os.environ, "PYTORCH_CUDA_ALLOC_CONF": settings}
    done = subprocess.run(
        [sys.executable, "-m", "floodmark", *words],
        capture_output=True,
        text=True,
        env=environment,
        timeout=600,
    )
    assert done.returncode == status, done.stderr[-3000:]
    return done


def run_by_torch(folder: Path, seed: int, settings: str, trace: str) -> tuple[int, int]:
    """What torch's own counters say after a run under these settings."""
    program = folder / "program.py"
    program.write_text(PROGRAM)
    words = ["estimate", "--quiet", "--json", "-o", str(folder / trace), str(program), str(seed)]
    done = floodmark(*words, settings=settings)
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("peaks ")]
    _, allocated, reserved = line.split()
    found = json.loads(done.stdout)
    assert (found["peak_allocated"], found["peak_reserved"]) == (int(allocated), int(reserved))
    return int(allocated), int(reserved)


def simulated(folder: Path, trace: str, settings: list[str]) -> dict[str, Any]:
    """What is simulated from the recording."""
    words = [word for one in settings for word in ("--alloc-conf", one)]
    done = floodmark("simulate", str(folder / trace), "--json", *words)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_a_simulation_comes_to_what_torch_comes_to(tmp_path: Path) -> None:
    default = run_by_torch(tmp_path, 1, "", "default.flood")
    answer = simulated(tmp_path, "default.flood", SETTINGS)
    recorded = answer["recorded"]
    assert (recorded["peak_allocated"], recorded["peak_reserved"]) == default
    for at, settings in enumerate(SETTINGS):
        truth = run_by_torch(tmp_path, 1, settings, f"other-{at}.flood")
        run = next(one for one in answer["runs"] if one["alloc_conf"] == settings)
        assert (run["peak_allocated"], run["peak_reserved"]) == truth, settings


@pytest.mark.parametrize("settings", ["", "expandable_segments:True"])
def test_a_smaller_gpu_fails_at_the_same_request(tmp_path: Path, settings: str) -> None:
    run_by_torch(tmp_path, 2, "", "default.flood")
    words = [
        "estimate",
        "--quiet",
        "--json",
        "--memory",
        "4600MiB",
        "-o",
        str(tmp_path / "s.flood"),
    ]
    words += [str(tmp_path / "program.py"), "2"]
    real = json.loads(floodmark(*words, settings=settings, status=1).stdout)["devices"][0]
    memory = str(real["capacity"] - real["outside_torch"])
    words = ["simulate", str(tmp_path / "default.flood"), "--json", "--memory", memory]
    run = json.loads(floodmark(*words, "--alloc-conf", settings).stdout)["runs"][-1]
    for figure in ("peak_allocated", "peak_reserved"):
        assert run[figure] == real[figure], figure
    # What torch says it failed to allocate is rounded already.
    rounded = -(-run["oom"]["requested"] // 512) * 512
    assert rounded == real["failed"]["request"]["bytes"]
