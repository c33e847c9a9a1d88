"""The tables of five tools are the same beside any other recording."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from support.compat_programs import FOLDER
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


@pytest.fixture(scope="module")
def ways(tmp_path_factory) -> dict[str, dict[str, str]]:
    """What each program printed, by the way in which it ran."""
    folder: Path = tmp_path_factory.mktemp("ways")
    programs = Programs(folder)
    script = str(FOLDER / "all_five.py")
    done = [
        programs.python(script, "cpu", "here.json", "plain", "traced", "beside"),
        programs.floodmark("run", "-o", "run.flood", script, "cpu", "run.json"),
        programs.floodmark("estimate", script, "cpu", "estimate.json"),
    ]
    found = {}
    for name, each in zip(("here", "run", "estimate"), done, strict=True):
        path = folder / f"{name}.json"
        assert path.exists(), each.stdout + each.stderr
        for way, texts in json.loads(path.read_text()).items():
            found[way if name == "here" else name] = texts
    return found


@pytest.mark.parametrize("way", ["traced", "beside", "run", "estimate"])
@pytest.mark.parametrize("name", NAMES)
def test_the_tables_are_those_of_a_plain_run(ways, name, way):
    plain = without_times(ways["plain"][name]).split()
    assert len(plain) > 40
    assert without_times(ways[way][name]).split() == plain
