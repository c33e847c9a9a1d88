"""Which links and paths `check_links` refuses, and which it leaves alone."""

from __future__ import annotations

import pytest
from check_links import problems

FILES = ["docs/guide.md", "README.md", "crates/one/src/report/row.rs", "python/one/_live.py"]


def refused(text: str, page: str = "docs/guide.md") -> list[str]:
    return problems({"README.md": "# The start\n", page: text}, FILES)


@pytest.mark.parametrize(
    "text",
    [
        "[start](../README.md), [part](../README.md#the-start), [here](#its-own)\n\n## Its own",
        "[out](https://example.org/nothing) and [folder](../crates/one)",
        "`crates/one/src/report/row.rs`, `report/row.rs`, `row.rs`, `src/report/`, `_live.py`",
        "`crates/*/src/report/NAME.rs` stands for many",
        "a file of the user: `train.py`, `out/x.flood`; a call: `crates/one.run()`",
        "```text\n`crates/none.rs` in a drawing\n```",
    ],
)
def test_what_exists_or_is_not_ours_is_fine(text):
    assert refused(text) == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[x](missing.md)", "the link to `missing.md` leads nowhere"),
        ("[`x`](missing.md)", "the link to `missing.md` leads nowhere"),
        ("[x](../README.md#the-end)", "`../README.md#the-end` names a heading"),
        ("`crates/one/src/row.rs`", "`crates/one/src/row.rs` does not exist"),
        ("`ow.rs`", "`ow.rs` does not exist"),
        ("`row/`, `crates/row/`", "`crates/row/` does not exist"),
        ("`_gone.py`", "`_gone.py` does not exist"),
    ],
)
def test_what_leads_nowhere_is_named(text, why):
    (problem,) = refused(text)
    assert problem.startswith("docs/guide.md: ")
    assert why in problem


def test_pages_about_the_past_may_name_what_is_gone():
    assert refused("`gone.rs`, [x](gone.md)", "CHANGELOG.md") == []
