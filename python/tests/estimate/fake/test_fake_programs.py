"""Programs that do more than train run unchanged with fake tensors."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from typing import Any

import pytest
from support.checkout import PROGRAMS
from support.phantoms import needs_cuda_build

pytestmark = needs_cuda_build

HABITS = PROGRAMS / "fake_habits.py"


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    """What became of each habit; one process for all."""
    done = subprocess.run([sys.executable, HABITS], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize(
    "habit",
    [
        "data_come_from_workers",
        "a_scaler_never_skips",
        "values_are_read",
        "models_are_copied_and_moved",
        "a_file_has_shapes",
        "random_states_come_and_go",
        "a_thread_makes_fake_tensors",
        "memory_is_pinned",
        "files_of_safetensors",
    ],
)
def test_a_habit_of_programs(results: dict[str, Any], habit: str) -> None:
    if habit == "files_of_safetensors" and find_spec("safetensors") is None:
        pytest.skip("needs safetensors")
    result = results[habit]
    assert "failed" not in result, result["failed"]


def test_what_was_read_is_listed(results: dict[str, Any]) -> None:
    assert {"item", "numpy", "tolist"} <= set(results["values_are_read"]["reads"])
    assert "get_scale" in results["a_scaler_never_skips"]["reads"]


def test_a_file_of_shapes_says_so(results: dict[str, Any]) -> None:
    note = "Files written in the block have shapes and no values"
    assert note in results["a_file_has_shapes"]["notes"]
    assert "shapes and no values" in results["after"]
