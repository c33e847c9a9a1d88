"""Import cycles inside the Python package: what is found, and what is none."""

from __future__ import annotations

import pytest
from layers.python_cycles import cycle_problems

FINE = {
    "__init__.py": "from floodmark.recording.recorder import start",
    "_core.pyi": "",
    "recording/__init__.py": "",
    "recording/recorder.py": "from floodmark import _core\nfrom floodmark.recording import window",
    "recording/window.py": "from floodmark.reports.trace import Trace",
    "reports/__init__.py": "",
    "reports/trace.py": "import floodmark._core",
}


def test_imports_without_a_cycle_are_fine():
    assert list(cycle_problems(FINE, "floodmark", {})) == []


@pytest.mark.parametrize(
    ("path", "source", "expected"),
    [
        ("recording/window.py", "from .recorder import start", "`floodmark.recording` of recorder"),
        ("recording/window.py", "from floodmark.recording import recorder", "recorder, window"),
        ("reports/trace.py", "import floodmark.recording.window", "of recording, reports"),
        ("reports/trace.py", "from floodmark import start", "of __init__, recording, reports"),
        ("reports/trace.py", "def f():\n    from ..recording import window", "(in a function)"),
        (
            "reports/__init__.py",
            "if T:\n    import floodmark.recording.window",
            "of recording",
        ),
    ],
)
def test_a_planted_cycle_is_found(path, source, expected):
    (problem,) = cycle_problems({**FINE, path: source}, "floodmark", {})
    assert expected in problem
    assert "→" in problem


def test_a_known_import_in_a_function_closes_no_cycle():
    late = "def f():\n    from floodmark.recording import window"
    known = {("floodmark.reports.trace", "floodmark.recording.window"): "a reason"}
    assert list(cycle_problems({**FINE, "reports/trace.py": late}, "floodmark", known)) == []
    (problem,) = cycle_problems(FINE, "floodmark", known)
    assert problem.startswith("KNOWN_LATE lists")


def test_a_known_import_may_not_move_to_the_top_of_its_module():
    known = {("floodmark.reports.trace", "floodmark.recording.window"): "a reason"}
    top = {**FINE, "reports/trace.py": "from floodmark.recording import window"}
    assert any("KNOWN_LATE" in problem for problem in cycle_problems(top, "floodmark", known))
