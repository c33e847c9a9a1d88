"""The commands that the documentation shows run, and print what is shown."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from check_commands import ROOT, Shown, pages, run_page, shown_in

#: They build and test the checkout itself. CI has all of them as steps but `make demo`.
NOT_RUN_HERE = {"make demo", "make test", "make wheel", "pip install dist/floodmark-*.whl"}

PAGE = """
```console
$ echo one; echo two
one
two
$ echo three > file
$ cat file # fixtures/
three
```
"""


def test_a_page_that_is_current_has_no_problem() -> None:
    assert run_page(PAGE) == (PAGE, [])


def test_other_output_is_a_problem_and_is_written() -> None:
    current, problems = run_page(PAGE.replace("\nthree\n", "\nfour\n"))
    assert len(problems) == 1
    assert "`cat file # fixtures/` printed\nthree\n" in problems[0]
    assert current == PAGE


def test_a_command_that_fails_is_a_problem() -> None:
    _, problems = run_page("```console\n$ false\n```\n")
    assert problems == ["`false` ended with status 1:\n"]


def test_numbers_may_differ_where_a_program_ran() -> None:
    shown = Shown("floodmark report x.flood", "Peak of cpu: 147.0 MiB, at 1.868 s\n32 MiB  a\n")
    assert shown.agrees_with("Peak of cpu:  9.5 MiB, at 12.1 s\n31 MiB  b\n")
    assert not shown.agrees_with("Peak of cuda:0: 9.5 MiB, at 12.1 s\n")


@pytest.mark.parametrize("path", pages(), ids=lambda path: str(path.relative_to(ROOT)))
def test_every_command_of_a_page_prints_what_it_shows(path: Path) -> None:
    _, problems = run_page(path.read_text("utf-8"))
    assert not problems, "\n".join(problems)


def test_the_readme_has_no_command_that_is_not_run() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    assert len(text.splitlines()) <= 150
    assert list(shown_in(text))
    for block in re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        for line in block.splitlines():
            assert line.partition("#")[0].strip() in NOT_RUN_HERE
