"""The check of the built site finds dead links and what would be loaded from another host."""

from __future__ import annotations

from pathlib import Path

import pytest
from check_site import problems, read_page


def found(folder: Path, **files: str) -> list[str]:
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text, "utf-8")
    return list(problems(folder, {path: read_page(path) for path in folder.glob("*.html")}))


def test_links_to_pages_and_anchors_that_exist_are_no_problem(tmp_path: Path) -> None:
    first = '<article><a href="b.html#there">b</a> <a href="https://x.org/a">x</a></article>'
    second = '<article><h2 id="there">words</h2><a href="#there">up</a></article>'
    assert found(tmp_path, a_html=first, b_html=second) == []


def test_dead_links_and_anchors_are_problems(tmp_path: Path) -> None:
    first = '<article>words <a href="c.html">c</a> <a href="b.html#gone">b</a></article>'
    assert found(tmp_path, a_html=first, b_html="<article>words</article>") == [
        "a.html: the link to `c.html` leads nowhere",
        "a.html: the link to `b.html#gone` names an anchor that does not exist",
    ]


@pytest.mark.parametrize(
    "element",
    [
        '<script src="https://x.org/a"></script>',
        '<link rel="stylesheet" href="https://x.org/a">',
        '<img src="//x.org/a">',
        '<iframe src="https://x.org/a"></iframe>',
    ],
)
def test_nothing_may_be_loaded_from_another_host(tmp_path: Path, element: str) -> None:
    (problem,) = found(tmp_path, a_html=f"<article>words {element}</article>")
    assert problem.endswith("from another host")


def test_style_sheets_are_read_too(tmp_path: Path) -> None:
    (problem,) = found(tmp_path, a_css="@import 'https://x.org/a.css'; b { }", b_html="<p>")
    assert problem == "a.css: loads `https://x.org/a.css` from another host"
