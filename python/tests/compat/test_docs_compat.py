"""The tests and programs that `docs/compat.md` names exist."""

from __future__ import annotations

import re

from support.checkout import ROOT

PAGE = (ROOT / "docs" / "compat.md").read_text()


def test_every_test_that_the_page_names_exists():
    named = re.findall(r"`(test_\w+)::(test_\w+)`", PAGE)
    assert len(named) > 40
    files = {path.stem: path for path in (ROOT / "python/tests").rglob("test_*.py")}
    sources = {file: files[file].read_text() for file, _ in named}
    missing = [f"{file}::{name}" for file, name in named if f"def {name}(" not in sources[file]]
    assert missing == []


def test_every_row_has_a_test():
    rows = [line for line in PAGE.splitlines() if line.startswith("| ") and "| test |" not in line]
    assert len(rows) > 50
    for row in rows:
        assert re.search(r"\| `(?:test_\w+::test_\w+|bench/\w+\.py)` \|$", row), row


def test_every_program_that_the_page_names_exists():
    named = set(re.findall(r"`((?:fixtures/compat|bench)/\w+\.py)`", PAGE))
    ours = {f"fixtures/compat/{path.name}" for path in (ROOT / "fixtures/compat").glob("*.py")}
    assert ours <= named | {"fixtures/compat/all_five.py"}
    assert all((ROOT / name).is_file() for name in named - {"bench/windows.py"})
