"""A program on a simulated GPU says what it would, and ends as it would.

What it prints on stdout goes to stderr there, and a program that allocates nothing has no verdict:
then the exit status is 1 where it would be 0.
"""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest
from support.transparency import Case, Comparison, without
from test_transparent_exits import ERRORS, EXITS
from test_transparent_in_place import BELOW
from test_transparent_main import SOURCES, STARTS
from test_transparent_processes import STREAMS
from test_transparent_tools import CASES as TOOLS

#: What an estimate changes: the frame below the first, and the variables for child processes.
CHANGED = (BELOW, "for item in sorted(os.environ.items()):\n    print(*item)\n")


def started(name: str) -> Case:
    case = STARTS[name]
    for text in CHANGED:
        case = without(case, text)
    return case


CASES = {
    **{f"exit: {name}": Case("import sys\n" + EXITS[name]) for name in ("a number", "words")},
    **{name: started(name) for name in ("a package", "a folder", "-O")},
    "annotations are not strings": SOURCES["annotations are not strings"],
    "pickles": SOURCES["pickles"],
    "a syntax error": SOURCES["a syntax error"],
    "a module that fails": SOURCES["a module that fails"],
    "a chain of errors": ERRORS["a chain of errors"],
    "errors in threads": ERRORS["errors in threads"],
    "handlers at the exit": ERRORS["handlers at the exit"],
    "standard input": STREAMS["standard input"],
    "sys.settrace": TOOLS["sys.settrace"],
}


@pytest.mark.parametrize("name", CASES)
def test_an_estimate_runs_it_as_python_does(tmp_path: Path, name: str) -> None:
    case = dataclasses.replace(CASES[name], before=lambda: os.dup2(2, 1))
    comparison = Comparison(tmp_path, case)
    expected = comparison.ended(comparison.plain())
    comparison.case = dataclasses.replace(case, before=None)
    found = comparison.ended(comparison.estimated())
    said = [line for line in found.err.splitlines() if not line.startswith("floodmark: ")]
    assert said == expected.err.splitlines()
    assert found.status == (expected.status or 1)
