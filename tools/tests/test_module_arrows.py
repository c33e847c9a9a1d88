"""The arrows between the modules of a crate: what is read, and what is refused."""

from __future__ import annotations

from pathlib import Path

import check_layers
import pytest
from layers import graph, modules

LIB = """//! A crate.
//!
//! ## Modules
//!
//! From the bottom up: a module uses those with a smaller number, none beside it.
//!
//! 1. [`clock`]: the time; `budget`: the memory limit, as
//!    `budget.rs` has it.
//! 2. [`journal`]: what happened.
//! 3. [`writer`]: the file.

mod budget;
mod clock;
mod journal;
mod writer;

pub use budget::{Limit, LEAST as LEAST_BYTES};
pub use clock::now;
"""
SOURCES = {
    "lib.rs": LIB,
    "budget.rs": "pub struct Limit;",
    "clock.rs": '// Not crate::writer.\npub fn now() -> &\'static str { "crate::writer" }',
    "journal/mod.rs": "mod lines;\nuse crate::clock;",
    "journal/lines.rs": "use super::super::{budget::{Limit}, clock::now};",
    "writer.rs": "use crate::{budget, journal::{self, Line}};\nfn f() { crate::now(); }",
}


def problems_of(folder: Path, changed: dict[str, str]):
    """What is wrong with the crate of SOURCES after a change."""
    for path, text in {**SOURCES, **changed}.items():
        file = folder / "src" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return list(modules.module_problems("it", folder))


def test_arrows_that_point_down_are_fine(tmp_path):
    assert problems_of(tmp_path, {}) == []


def test_every_way_of_naming_a_module_is_an_arrow(tmp_path):
    problems_of(tmp_path, {})
    edges = set(modules.read_crate(tmp_path).edges)
    journal = {("journal", "clock"), ("journal", "budget")}
    assert edges == journal | {("writer", "budget"), ("writer", "journal"), ("writer", "clock")}


@pytest.mark.parametrize(
    ("path", "source", "expected"),
    [
        ("clock.rs", "use crate::journal;", "`clock` (1) uses `journal` (2), which stands above"),
        ("clock.rs", "use super::budget;", "`clock` (1) uses `budget` (1), which stands beside"),
        ("clock.rs", "use crate::Limit;", "`clock` (1) uses `budget` (1), which stands beside"),
        ("clock.rs", "use crate::LEAST_BYTES;", "`clock` (1) uses `budget` (1)"),
        ("budget.rs", "use crate::{clock, writer};", "`budget` (1) uses `writer` (3)"),
        ("journal/lines.rs", "fn f() { super::super::writer::go() }", "`journal` (2) uses"),
        ("clock.rs", "use crate::Outcome;", "`clock` uses what src/lib.rs defines"),
        ("lib.rs", LIB.replace("mod clock;", "mod clock;\nmod late;"), "does not name `late`"),
        ("lib.rs", LIB.replace("3. [`writer`]", "3. [`pen`]"), "names `pen`, which is no module"),
        ("lib.rs", LIB.replace("[`writer`]", "[`clock`]"), "names `clock` twice"),
        ("lib.rs", LIB.replace("[`writer`]: ", "The writer of "), "line 3 of the list"),
        ("lib.rs", LIB.replace("## Modules", "## Parts"), "has no list of its 4 modules"),
    ],
)
def test_a_planted_mistake_is_found(tmp_path, path, source, expected):
    found = problems_of(tmp_path, {path: source})
    assert any(expected in problem for problem in found), found


@pytest.mark.parametrize(
    "source",
    [
        "#[cfg(test)]\nmod tests {\n    use crate::writer;\n}",
        "#[cfg(all(test, unix))]\n#[expect(unused)]\nmod tests { use super::super::writer; }",
        "#[cfg(test)]\nfn f() { crate::writer::go() }",
        "/* crate::writer */ const C: char = '\"'; // crate::writer",
        'const S: &str = r#"a "crate::writer" b"#;',
    ],
)
def test_tests_comments_and_literals_are_no_arrows(tmp_path, source):
    assert problems_of(tmp_path, {"budget.rs": source}) == []


def test_a_file_that_only_tests_compile_is_left_out(tmp_path):
    changed = {
        "journal/mod.rs": "#[cfg(test)]\nmod tests;\n",
        "journal/tests.rs": "use crate::writer;",
    }
    assert problems_of(tmp_path, changed) == []


def test_super_counts_from_the_module_that_stands_in_the_file(tmp_path):
    source = "pub mod kinds {\n    use super::super::budget;\n}"
    (problem,) = problems_of(tmp_path, {"clock.rs": source})
    assert "`clock` (1) uses `budget` (1)" in problem


def test_few_modules_need_no_list_and_still_no_cycle(tmp_path):
    few = {"lib.rs": "mod budget;\nmod clock;\nmod writer;\n"}
    assert problems_of(tmp_path, few) == []
    (problem,) = problems_of(
        tmp_path, {**few, "clock.rs": "use crate::budget;", "budget.rs": "use crate::clock;"}
    )
    assert problem == "modules of `it` use each other: budget, clock"


def test_the_graph_names_every_arrow_and_cycle(tmp_path):
    problems_of(tmp_path, {"clock.rs": "use crate::writer;\nuse crate::writer::Pen;"})
    text = modules.graph_text(modules.read_crate(tmp_path))
    assert "clock: writer (2)" in text
    assert "4 modules, 6 arrows, 1 cycles" in text
    assert "cycle: clock, journal, writer" in text


def test_components_are_found_apart():
    arrows = {"a": {"b"}, "b": {"a", "c"}, "c": {"d"}, "d": {"e"}, "e": {"c"}, "f": {"a"}}
    assert graph.components(arrows) == [["a", "b"], ["c", "d", "e"]]


def test_the_graph_of_a_crate_is_printed(capsys):
    assert check_layers.main(["--graph", "floodmark-slots"]) == 0
    assert "1 modules, 0 arrows, 0 cycles" in capsys.readouterr().out
    assert check_layers.main(["--graph", "floodmark-nothing"]) == 1
