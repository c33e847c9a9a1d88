"""`source=True` and `run --source`: a trace has the program's own source files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from support.flood_file import FloodFile

PROGRAM = """import torch
import helper

kept = [torch.zeros(1 << 18), helper.make(), torch.nn.Linear(8, 8)]
"""
HELPER = """import torch


def make():
    return torch.ones(1 << 18)  # one MiB
"""


def record(folder: Path, *options: str) -> Path:
    (folder / "train.py").write_text(PROGRAM)
    (folder / "helper.py").write_text(HELPER)
    trace = folder / "step.flood"
    command = [sys.executable, "-m", "floodmark", "run", "--quiet", "-o", str(trace), *options]
    subprocess.run([*command, "train.py"], cwd=folder, check=True)
    return trace


def annotate(trace: Path, file: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "floodmark", "annotate", str(trace), file]
    return subprocess.run(command, cwd=trace.parent, capture_output=True, text=True, check=False)


def test_a_trace_with_source_is_annotated_where_the_files_are_gone(tmp_path: Path) -> None:
    trace = record(tmp_path, "--source")
    (tmp_path / "train.py").unlink()
    (tmp_path / "helper.py").unlink()
    for file, line in (("helper.py", "# one MiB"), ("train.py", "helper.make()")):
        shown = annotate(trace, file)
        assert shown.returncode == 0, shown.stderr
        assert line in shown.stdout


def test_the_source_is_the_one_that_ran(tmp_path: Path) -> None:
    trace = record(tmp_path, "--source")
    (tmp_path / "helper.py").write_text("# changed\n")
    shown = annotate(trace, "helper.py")
    assert "# one MiB" in shown.stdout
    assert "newer" not in shown.stdout


def test_without_the_option_nothing_is_stored(tmp_path: Path) -> None:
    trace = record(tmp_path)
    assert b"one MiB" not in trace.read_bytes()
    (tmp_path / "helper.py").unlink()
    shown = annotate(trace, "helper.py")
    assert shown.returncode == 1
    assert "does not exist on this machine" in shown.stderr


def test_libraries_are_not_stored(tmp_path: Path) -> None:
    recorded = FloodFile(record(tmp_path, "--source"))
    # `torch.nn.Linear` allocates in a file of torch.
    files = {frame.file for stack in recorded.frames.values() for frame in stack}
    assert any("site-packages/torch/" in file for file in files)
    assert sorted(Path(file).name for file in recorded.sources) == ["helper.py", "train.py"]


def test_a_recording_in_memory_has_its_source_too(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    path = tmp_path / "made.py"
    path.write_text("import torch\n\ndef make():\n    return torch.ones(1 << 18)  # one MiB\n")
    script = (
        "import sys, floodmark, importlib\n"
        f"sys.path.insert(0, {str(tmp_path)!r})\n"
        "made = importlib.import_module('made')\n"
        "with floodmark.trace(source=True) as recording:\n"
        "    kept = made.make()\n"
        f"import shutil; shutil.copy(recording.path, {str(tmp_path / 'copy.flood')!r})\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
    path.unlink()
    assert "# one MiB" in annotate(tmp_path / "copy.flood", "made.py").stdout
