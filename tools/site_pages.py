"""Adds files outside `docs` to the site of the documentation, and adapts links between pages.

A hook of mkdocs. A page of `docs` may link to any file of the repository, as in a checkout. On the
site, a linked Markdown file is a page below `repository/`, an example is a page with its code, and
any other file is a link to the repository, or plain text while pyproject.toml names none. A folder
in the navigation (a value that ends in `/`) stands for its pages. `<!-- saved page: NAME -->` is a
link to a page that `make gallery` saved, where it did.

Sees: the repository, and mkdocs's list of files. A link to a file that does not exist stays as it
is, so that mkdocs reports it.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
DOCS = "docs/"
OUTSIDE = "repository/"
#: Pages of the site to which no page of `docs` links.
ALWAYS = ("ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")

#: Where `make gallery` saves pages. Most are too large for the repository.
SAVED_PAGES = ROOT / "target/gallery"

SAVED_PAGE = re.compile(r"<!-- saved page: ([\w-]+) -->")
REPOSITORY = re.compile(r'^Repository = "([^"]+)"$', re.MULTILINE)
LINK = re.compile(r"(!?\[(?:[^\[\]]|\[[^\]]*\])*\])\(([^()\s]+)\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Replace folders in the navigation by their pages, and find the address of the source."""
    config.extra["source_url"] = source_url((ROOT / "pyproject.toml").read_text("utf-8"))
    config.nav = [with_pages(entry) for entry in config.nav or []]
    return config


def with_pages(entry: Any) -> Any:
    """An entry of the navigation, with the pages of its folders."""
    if isinstance(entry, list):
        return [with_pages(part) for part in entry]
    if isinstance(entry, dict):
        return {title: with_pages(part) for title, part in entry.items()}
    if isinstance(entry, str) and entry.endswith("/"):
        return sorted(
            site_path(path.relative_to(ROOT).as_posix())
            for path in (ROOT / repository_path(entry)).glob("*.md")
        )
    return entry


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the files outside `docs` that pages link to."""
    from mkdocs.structure.files import File

    todo = [ROOT / name for name in ALWAYS]
    todo += sorted((ROOT / "bench/results").glob("*.md"))
    todo += [Path(file.abs_src_path) for file in files.documentation_pages() if file.abs_src_path]
    seen: set[str] = set()
    while todo:
        path = todo.pop()
        name = path.relative_to(ROOT).as_posix()
        if name in seen:
            continue
        seen.add(name)
        text = path.read_text("utf-8")
        if path.suffix == ".py":
            text = f"# {name}\n\n```python\n{text}```\n"
        elif name.startswith("bench/results/"):
            # Sizes such as `[64] [1]` are no links.
            text = re.sub(r"\] ?\[", r"] \\[", text)
        else:
            todo += [ROOT / target for target in pages_outside(name, text)]
        if not name.startswith(DOCS):
            files.append(File.generated(config, page_path(name), content=text))
    for path in sorted(SAVED_PAGES.glob("*.html")):
        if files.get_file_from_path(f"gallery/{path.name}") is None:
            files.append(File.generated(config, f"gallery/{path.name}", abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Replace the links of a page by links to pages of the site."""
    return with_links(
        markdown,
        page.file.src_uri,
        lambda path: files.get_file_from_path(path) is not None,
        config.extra["source_url"],
    )


def source_url(pyproject: str) -> str:
    """Where the files of the repository can be read; empty while it has no address."""
    found = REPOSITORY.search(pyproject)
    return f"{found[1].rstrip('/')}/blob/main/" if found else ""


def with_links(
    markdown: str, page: str, is_on_site: Callable[[str], bool], source: str = ""
) -> str:
    """The text of a page, with links to where mkdocs has the files."""

    def lead(match: re.Match[str]) -> str:
        label, target = match.groups()
        to, heading = resolved(repository_path(page), target)
        if to is None or not (ROOT / to).exists():
            return match.group()
        there = page_path(to)
        if is_on_site(there):
            return f"{label}({posixpath.relpath(there, posixpath.dirname(page) or '.')}{heading})"
        return f"{label}({source}{to}{heading})" if source else label.lstrip("!")[1:-1]

    def open_page(match: re.Match[str]) -> str:
        name = f"{match.group(1)}.html"
        there = posixpath.join(posixpath.dirname(page), name)
        return f"\n[Open the saved page]({name})\n" if is_on_site(there) else ""

    return outside_code(markdown, lambda text: SAVED_PAGE.sub(open_page, LINK.sub(lead, text)))


def outside_code(text: str, change: Callable[[str], str]) -> str:
    """The text, changed wherever it is not a block of code."""
    parts = re.split(r"(^```.*?^```$)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if part.startswith("```") else change(part) for part in parts)


def pages_outside(name: str, text: str) -> Iterator[str]:
    """The files outside `docs` that become pages because this page links to them."""
    for _, target in LINK.findall(re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)):
        to, _ = resolved(name, target)
        if to is None or to.startswith(DOCS) or not (ROOT / to).is_file():
            continue
        if to.endswith(".md") or (to.startswith("examples/") and to.endswith(".py")):
            yield to


def resolved(name: str, target: str) -> tuple[str | None, str]:
    """The file that a link leads to, from the root of the repository, and its heading with `#`."""
    if re.match(r"[a-z]+:", target) or target.startswith("#"):
        return None, ""
    path, hash_sign, heading = target.partition("#")
    to = posixpath.normpath(posixpath.join(posixpath.dirname(name), path))
    return (None if to.startswith("..") else to), hash_sign + heading


def page_path(name: str) -> str:
    """The path of a file in mkdocs: an example is a Markdown page."""
    return site_path(name) + (".md" if name.endswith(".py") else "")


def site_path(name: str) -> str:
    """The path in mkdocs of a file of the repository."""
    return name.removeprefix(DOCS) if name.startswith(DOCS) else OUTSIDE + name


def repository_path(path: str) -> str:
    """The file of the repository at a path in mkdocs."""
    if path.startswith(OUTSIDE):
        return path.removeprefix(OUTSIDE)
    return DOCS + path
