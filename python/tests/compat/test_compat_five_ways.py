"""The tables of five tools are the same beside any other recording."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from support.compat_programs import FOLDER
from support.phantoms import needs_cuda_build, needs_no_gpu
from support.programs import Programs

#: What differs from run to run: times, and the name of a file that is named after the time.
TIMES = [
    (re.compile(r"(\d+\.\d%)  +[\d.]+(  \S+)$", re.MULTILINE), r"\1  ms\2"),
    (re.compile(r"memory_csv_data/[\d-]+\.csv"), "memory_csv_data/time.csv"),
]
NAMES = [
    "lines_at_peak",
    "estimated_step",
    "traced_layers",
    "tracked_operators",
    "profiled_epochs",
]


def without_times(text: str) -> str:
    for pattern, instead in TIMES:
        text = pattern.sub(instead, text)
    return text


def run_in_all_ways(folder: Path, device: str, *here: str) -> dict[str, dict[str, str]]:
    """What each program printed, by the way in which it ran; the ways `here` in one process."""
    programs = Programs(folder)
    script = str(FOLDER / "all_five.py")
    done = [
        programs.python(script, device, "here.json", *here),
        programs.floodmark("run", "-o", "run.flood", script, device, "run.json"),
        programs.floodmark("estimate", script, device, "estimate.json"),
    ]
    found = {}
    for name, each in zip(("here", "run", "estimate"), done, strict=True):
        path = folder / f"{name}.json"
        assert path.exists(), each.stdout + each.stderr
        for way, texts in json.loads(path.read_text()).items():
            found[way if name == "here" else name] = texts
    return found


@pytest.fixture(scope="module")
def ways(tmp_path_factory) -> dict[str, dict[str, str]]:
    return run_in_all_ways(tmp_path_factory.mktemp("ways"), "cpu", "plain", "traced", "beside")


@pytest.fixture(scope="module")
def ways_without_a_driver(tmp_path_factory) -> dict[str, dict[str, str]]:
    # The recording comes first: it then runs when fake tensors first need a device.
    return run_in_all_ways(tmp_path_factory.mktemp("cuda"), "cuda", "traced", "plain", "beside")


@pytest.mark.parametrize("way", ["traced", "beside", "run", "estimate"])
@pytest.mark.parametrize("name", NAMES)
def test_the_tables_are_those_of_a_plain_run(ways, name, way):
    plain = without_times(ways["plain"][name]).split()
    assert len(plain) > 40
    assert without_times(ways[way][name]).split() == plain


@needs_cuda_build
@needs_no_gpu
@pytest.mark.parametrize("way", ["traced", "beside", "run", "estimate"])
def test_a_step_on_a_gpu_that_is_not_there_is_estimated_beside_any_recording(
    ways_without_a_driver, way
):
    plain = without_times(ways_without_a_driver["plain"]["estimated_step"]).split()
    assert "workspace" in plain
    assert without_times(ways_without_a_driver[way]["estimated_step"]).split() == plain
