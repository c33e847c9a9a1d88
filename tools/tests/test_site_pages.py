"""Links between the pages of the site, and the pages that do not lie in `docs`."""

from __future__ import annotations

from pathlib import Path

from site_pages import ROOT, pages_outside, source_url, with_links, with_pages

PAGES = {"guides/leaks.md", "repository/ARCHITECTURE.md", "repository/examples/leak.py.md"}


def led(markdown: str, page: str, source: str = "") -> str:
    return with_links(markdown, page, PAGES.__contains__, source)


def test_a_link_between_pages_of_docs_stays() -> None:
    assert led("[leaks](guides/leaks.md#x)", "README.md") == "[leaks](guides/leaks.md#x)"


def test_a_page_outside_docs_has_a_place_of_its_own() -> None:
    assert led("[a](../ARCHITECTURE.md)", "README.md") == "[a](repository/ARCHITECTURE.md)"
    back = led("[l](docs/guides/leaks.md)", "repository/ARCHITECTURE.md")
    assert back == "[l](../guides/leaks.md)"


def test_an_example_is_a_page() -> None:
    found = led("[`leak.py`](../../examples/leak.py)", "guides/leaks.md")
    assert found == "[`leak.py`](../repository/examples/leak.py.md)"


def test_code_is_text_until_its_source_can_be_read_somewhere() -> None:
    link = "[`main`](../crates/floodmark/src/lib.rs)"
    assert led(link, "README.md") == "`main`"
    url = "https://example.org/"
    assert led(link, "README.md", url) == f"[`main`]({url}crates/floodmark/src/lib.rs)"


def test_the_source_is_where_pyproject_names_a_repository() -> None:
    assert source_url("[project.urls]\n\n[tool.ruff]\n") == ""
    named = '[project.urls]\nRepository = "https://example.org/floodmark/"\n'
    assert source_url(named) == "https://example.org/floodmark/blob/main/"


def test_a_dead_link_and_a_block_of_code_stay() -> None:
    assert led("[a](missing.md)", "README.md") == "[a](missing.md)"
    block = "```python\n[a](../ARCHITECTURE.md)\n```\n"
    assert led(block, "README.md") == block


def test_linked_markdown_and_examples_become_pages() -> None:
    text = "[a](../../ARCHITECTURE.md) [b](../../examples/leak.py) [c](../../Makefile) [d](ci.md)"
    assert list(pages_outside("docs/guides/leaks.md", text)) == [
        "ARCHITECTURE.md",
        "examples/leak.py",
    ]


def test_a_folder_in_the_navigation_stands_for_its_pages() -> None:
    pages = with_pages([{"Decisions": "design/"}, "README.md"])
    names = sorted(path.name for path in Path(ROOT, "docs/design").glob("*.md"))
    assert pages == [{"Decisions": [f"design/{name}" for name in names]}, "README.md"]
