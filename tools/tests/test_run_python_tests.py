"""Each file of tests is run by one of the processes, and every failure is seen."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TOOL = Path(__file__).parent.parent / "run_python_tests.py"


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(TOOL), "-q", "-p", "no:cacheprovider", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


def test_every_test_runs_once(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    for name in "abc":
        lines = [
            f"def test_{number}():\n    open('{name}{number}', 'x').close()" for number in range(3)
        ]
        (tmp_path / f"test_{name}.py").write_text("\n".join(lines))
    done = run(tmp_path)
    assert done.returncode == 0, done.stdout
    assert (
        sum((tmp_path / f"{name}{number}").exists() for name in "abc" for number in range(3)) == 9
    )


def test_a_failure_in_any_process_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    for number in range(4):
        (tmp_path / f"test_{number}.py").write_text(f"def test_it():\n    assert {number} != 2\n")
    done = run(tmp_path, "--processes", "3")
    assert done.returncode == 1
    assert "test_2.py::test_it" in done.stdout
