"""A program that runs in floodmark's own process sees little of it.

So it is where Python ignores the environment: `python -E -m floodmark run program.py`.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from support.transparency import Case, assert_same, without
from test_transparent_exits import ERRORS, EXITS
from test_transparent_main import SOURCES, STARTS
from test_transparent_processes import CHILDREN, STREAMS
from test_transparent_tools import CASES as TOOLS

#: The only thing of `STARTS` that differs: the frame below the program's first.
BELOW = "sys._getframe().f_back, "

NAMES = {
    "starts": (
        STARTS,
        [
            "its own options",
            "a path that is not normal",
            "a module",
            "a package",
            "a folder",
            "a zip file",
            "standard input",
            "-OO",
            "-W and -X",
            "-X dev",
        ],
    ),
    "sources": (
        SOURCES,
        [
            "annotations are not strings",
            "pickles",
            "runpy",
            "imports",
            "latin-1",
            "a syntax error",
            "a warning of the compiler",
            "no such module",
            "a module that fails",
            "a zip file that fails",
            "a folder without __main__",
            "no read permission",
        ],
    ),
    "errors": (
        ERRORS,
        [
            "a chain of errors",
            "a keyboard interrupt of its own",
            "a hook",
            "errors in threads",
            "handlers at the exit",
            "threads alive at the exit",
            "objects at the shutdown",
        ],
    ),
    "children": (CHILDREN, ["a fork", "multiprocessing", "os.execv of itself"]),
    "streams": (STREAMS, ["standard input", "a closed stdout", "arguments in an old locale"]),
    "tools": (TOOLS, ["sys.settrace", "pdb", "C extensions"]),
    "exits": (
        {name: Case("import sys\n" + source) for name, source in EXITS.items()},
        ["a number", "words", "an exit of its own", "an exit while another error is handled"],
    ),
}


def in_place(case: Case) -> Case:
    """The same, with a Python that ignores the environment."""
    case = without(case, BELOW)
    return dataclasses.replace(case, options=("-E", *case.options))


@pytest.mark.parametrize(
    ("group", "name"), [(group, name) for group, (_, names) in NAMES.items() for name in names]
)
def test_it_is_as_under_python(tmp_path: Path, group: str, name: str) -> None:
    assert_same(tmp_path, in_place(NAMES[group][0][name]))


def test_the_flags_of_an_isolated_python_stay(tmp_path: Path) -> None:
    source = "import sys\nprint(sys.flags, sys.argv, sys.orig_argv, __builtins__, __spec__)\n1 / 0"
    ended = assert_same(tmp_path, Case(source, options=("-I",), words=("program.py", "x")))
    assert "isolated=1" in ended.out
