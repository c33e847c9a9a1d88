"""megatron-core from PyPI with fake tensors: its stages need what they must. Skipped without it."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from support.checkout import ROOT
from support.phantoms import needs_cuda_build
from support.programs import Programs

BENCH = ROOT / "bench" / "programs" / "fake"


def _is_installed() -> bool:
    try:
        return importlib.util.find_spec("megatron.core") is not None
    except ModuleNotFoundError:
        return False


pytestmark = [
    needs_cuda_build,
    pytest.mark.skipif(not _is_installed(), reason="megatron-core is not installed"),
    pytest.mark.skipif(not BENCH.exists(), reason="the scripts of the benches are not here"),
]


def run(programs: Programs, engine: str, ranks: str, *options: str) -> dict[str, Any]:
    """What an engine says of the GPT."""
    script = BENCH / "megatron_parallel.py"
    done = programs.python(BENCH / "one.py", engine, ranks, script, *options, timeout=600)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert not found["failure"], done.stderr
    return found


def test_stages_differ_as_they_must(tmp_path: Path) -> None:
    programs = Programs(tmp_path)
    first = run(programs, "fake", "0/4", "layers=4")
    last = run(programs, "fake", "3/4", "layers=4")
    assert first["peak_allocated"] != last["peak_allocated"]
    phantom = run(programs, "phantom", "0/4", "layers=4")
    assert first["peak_allocated"] == pytest.approx(phantom["peak_allocated"], rel=0.01)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="0.16 needs another package for experts")
def test_experts_get_their_share(tmp_path: Path) -> None:
    options = ("tp=1", "pp=2", "ep=2", "layers=4")
    free = run(Programs(tmp_path), "fake", "3/4", *options, "moe=dropless")
    assert any("share of the tokens" in note for note in free["notes"])
    bounded = run(Programs(tmp_path), "fake", "3/4", *options, "moe=capacity")
    assert free["peak_allocated"] == pytest.approx(bounded["peak_allocated"], rel=0.02)
