"""Checks that links and paths in the documentation lead to files.

Sees: the Markdown files under version control, and the names of all files. A link target is read
from the page that has it, with the heading after `#` where there is one. A path in backticks is
checked when it begins with a folder of this repository, ends in `.rs`, or names a private module of
Python; a file may be named by the end of its path. Exit status 0 when all exist, 1 with one line
for each that does not.
"""

from __future__ import annotations

import fnmatch
import posixpath
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tracked_files import tracked_files

# Pages that describe the past, or are written by programs.
EXEMPT = ("CHANGELOG.md", "bench/results/*")

LINK = re.compile(r"\[[^\]]*\]\(([^()\s]+)\)")
CODE = re.compile(r"`([^`\n]+)`")
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+ +(.*?) *$", re.MULTILINE)
PATH = re.compile(r"[\w.*{},=-]+(?:/[\w.*{},=-]+)*/?")
# `by_NAME.rs` stands for every name.
PLACEHOLDER = re.compile(r"[A-Z]{2,}")


def problems(pages: Mapping[str, str], files: Iterable[str]) -> list[str]:
    """The links and paths of each page that do not exist; `files` are paths from the root."""
    known = frozenset(files)
    folders = frozenset(folder for path in known for folder in parents(path))
    found = []
    for page, text in sorted(pages.items()):
        if any(fnmatch.fnmatchcase(page, pattern) for pattern in EXEMPT):
            continue
        text = FENCED.sub("", text)
        found += [f"{page}: {why}" for why in dead_links(page, text, pages, known | folders)]
        found += [f"{page}: `{path}` does not exist" for path in dead_paths(text, known, folders)]
    return found


def parents(path: str) -> Iterator[str]:
    """The folders that a path lies in."""
    while path := posixpath.dirname(path):
        yield path


def dead_links(
    page: str, text: str, pages: Mapping[str, str], known: frozenset[str]
) -> Iterator[str]:
    """Links to files or headings that do not exist. Links to other hosts are not followed."""
    for target in LINK.findall(CODE.sub("", text)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, heading = target.partition("#")
        to = posixpath.normpath(posixpath.join(posixpath.dirname(page), path)) if path else page
        if to != "." and to not in known:
            yield f"the link to `{target}` leads nowhere"
        elif heading and to in pages and heading not in headings(pages[to]):
            yield f"the link to `{target}` names a heading that does not exist"


def headings(text: str) -> set[str]:
    """The anchors of a page, as GitHub makes them."""
    found = HEADING.findall(FENCED.sub("", text))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found}


def dead_paths(text: str, known: frozenset[str], folders: frozenset[str]) -> Iterator[str]:
    """Paths in backticks that no file or folder has."""
    roots = {folder for folder in folders if "/" not in folder}
    for path in dict.fromkeys(CODE.findall(text)):
        if not PATH.fullmatch(path) or not is_ours(path, roots):
            continue
        pattern = PLACEHOLDER.sub("*", path.rstrip("/"))
        among = folders if path.endswith("/") else known | folders
        if not any(is_named(name, pattern) for name in among):
            yield path


def is_ours(path: str, roots: set[str]) -> bool:
    """Whether a word in backticks can only be a path of this repository."""
    first, slash, _ = path.partition("/")
    name = posixpath.basename(path)
    is_private = re.fullmatch(r"_[a-z]\w*\.py", name) is not None
    return bool(slash and first in roots) or path.endswith(".rs") or is_private


def is_named(name: str, pattern: str) -> bool:
    """Whether a path is a pattern, or ends with it."""
    if "*" not in pattern:
        return name == pattern or name.endswith("/" + pattern)
    return fnmatch.fnmatchcase(name, pattern) or fnmatch.fnmatchcase(name, "*/" + pattern)


def main() -> int:
    root = Path(__file__).resolve().parent.parent
    files = tracked_files(root)
    names = [name for name in files if name.endswith(".md")]
    pages = {name: (root / name).read_text(encoding="utf-8") for name in names}
    found = problems(pages, files)
    for problem in found:
        print(f"error: {problem}", file=sys.stderr)
    if not found:
        print(f"links: {len(pages)} pages, every link and path leads to a file")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
