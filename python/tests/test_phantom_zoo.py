"""Models on a phantom H200 against what a real one recorded, to the byte.

The recordings were made on an H200 with the versions of torch and of the models that the checkout
pins; elsewhere there is nothing to compare with.
"""

from __future__ import annotations

import gzip
import json
import pickle
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pytest
from phantoms import needs_cuda_build

FIXTURES = Path(__file__).parents[2] / "fixtures"


def _has(package: str, wanted: str) -> bool:
    try:
        return version(package).split("+")[0] == wanted
    except PackageNotFoundError:
        return False


pytestmark = [
    needs_cuda_build,
    pytest.mark.skipif(
        not (
            _has("torch", "2.11.0")
            and _has("transformers", "5.17.0")
            and _has("torchvision", "0.26.0")
        ),
        reason="the recordings are of other versions",
    ),
]

#: Every number is the recorded one. ResNet-18 has convolutions whose workspaces cuDNN plans for
#: fewer multiprocessors, and the phantom corrects.
EXACT = [
    "neumf",
    "gpt2_small_fp32",
    "t5_small",
    "llama1b_bf16",
    "llama1b_ckpt",
    "llama1b_infer",
    "resnet18_fp32",
]


def recorded(name: str) -> tuple[dict[str, Any], list[int]]:
    """What the H200 measured, and the sizes of its allocations."""
    folder = FIXTURES / "recordings" / "zoo"
    figures = json.loads((folder / f"{name}.json").read_text())
    with gzip.open(folder / f"{name}.pickle.gz") as file:
        traces = pickle.load(file)["device_traces"]
    sizes = [e["size"] for trace in traces for e in trace if e["action"] == "alloc"]
    for step in figures["steps"]:
        del step["time"]
    return figures, sizes


def estimated(name: str, first: int, how: str = "--phantom") -> dict[str, Any]:
    """The same on a phantom."""
    script = FIXTURES / "zoo" / "measure.py"
    done = subprocess.run(
        [sys.executable, str(script), name, str(first), how],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def both(name: str, how: str = "--phantom") -> tuple[dict[str, Any], list[int], dict[str, Any]]:
    truth, sizes = recorded(name)
    # On the recording's machine a library allocated a number when it was imported.
    first = sizes[0] if sizes[0] <= 4 else 0
    return truth, sizes, estimated(name, first, how)


def peak(figures: dict[str, Any]) -> int:
    phases = [p for step in figures["steps"] for p in step.values() if isinstance(p, dict)]
    return max(phase["peak"] for phase in phases)


@pytest.mark.parametrize("name", [*EXACT, "lstm"])
def test_every_allocation_and_every_figure_is_the_recorded_one(name: str) -> None:
    truth, sizes, found = both(name)
    assert found["sizes"] == sizes
    assert found["steps"] == truth["steps"]
    for figure in ("built", "reserved", "allocated"):
        assert found[figure] == truth[figure], figure


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gpt2_small_fp32", "llama1b_bf16", "resnet18_fp32", "lstm"])
def test_they_are_also_on_a_phantom_that_came_after_torch(name: str) -> None:
    truth, sizes, found = both(name, "--late")
    assert found["sizes"] == sizes
    assert found["steps"] == truth["steps"]


def test_with_autocast_every_allocation_is_the_recorded_one() -> None:
    # Autocast lets go of its copies in the order of their addresses on the host, which no two runs
    # have in common: which free block a request takes, and how much larger it is, varies a little.
    truth, sizes, found = both("bert_amp")
    assert found["sizes"] == sizes
    assert found["reserved"] == truth["reserved"]
    assert abs(peak(found) - peak(truth)) < 8 << 20


@pytest.mark.parametrize("name", ["resnet50_amp_cl"])
def test_convolutions_are_within_one_percent(name: str) -> None:
    truth, _, found = both(name)
    assert abs(peak(found) - peak(truth)) <= peak(truth) // 100
    assert abs(found["reserved"] - truth["reserved"]) <= truth["reserved"] // 100
