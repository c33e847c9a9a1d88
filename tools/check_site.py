"""Checks the built site of the documentation.

    python tools/check_site.py [FOLDER]

Every link of every page leads to a file of the site, and to an anchor that its page has. No page,
style sheet or picture requests anything from another host: a link that a reader follows may lead
elsewhere, a script, style, font, picture or frame may not. Saved pages of floodmark (`*.html` in
`gallery`) are files of the site, and are checked like every page.

Sees: the folder that `make docs` fills. Exit status 0 with a count of pages, words and pictures, 1
with one line for each problem.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

SITE = Path(__file__).resolve().parent.parent / "target/site"
#: What a browser loads by itself, by element and attribute.
LOADED = {
    ("script", "src"),
    ("img", "src"),
    ("iframe", "src"),
    ("source", "src"),
    ("video", "src"),
    ("audio", "src"),
    ("object", "data"),
    ("embed", "src"),
    ("image", "href"),
    ("use", "href"),
}
#: Kinds of `<link>` that are not loaded.
NOT_LOADED = {"canonical", "next", "prev", "alternate", "author", "license"}
CSS_URL = re.compile(r"url\(\s*['\"]?([^'\")]+)|@import\s+['\"]([^'\"]+)")
SKIPPED = {"script", "style", "svg"}


@dataclass
class PageContent(HTMLParser):
    """What a page links to and loads, its anchors, its words, its pictures."""

    links: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)
    pictures: list[str] = field(default_factory=list)
    words: int = 0
    is_article: bool = False
    skipping: int = 0

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {key: value for key, value in attrs if value}
        self.anchors.update(values[key] for key in ("id", "name") if key in values)
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if tag == "link" and "href" in values:
            kinds = set(values.get("rel", "").split())
            (self.links if kinds & NOT_LOADED else self.loads).append(values["href"])
        self.loads += [values[key] for name, key in LOADED if name == tag and key in values]
        if tag == "img" and "src" in values:
            self.pictures.append(values["src"])
        if tag == "article":
            self.is_article = True
        if tag in SKIPPED:
            self.skipping += 1

    def handle_endtag(self, tag: str) -> None:
        if tag == "article":
            self.is_article = False
        if tag in SKIPPED:
            self.skipping -= 1

    def handle_data(self, data: str) -> None:
        if self.skipping == 0 and self.is_article:
            self.words += len(re.findall(r"\w[\w'’.-]*", data))


def read_page(path: Path) -> PageContent:
    """The content of an HTML file."""
    content = PageContent()
    content.feed(path.read_text("utf-8"))
    return content


def problems(site: Path, pages: dict[Path, PageContent]) -> Iterator[str]:
    """What is wrong, one line each."""
    for path, page in sorted(pages.items()):
        name = path.relative_to(site)
        for link in page.links:
            if why := dead(link, path, site, pages):
                yield f"{name}: the link to `{link}` {why}"
        for load in page.loads:
            if is_elsewhere(load):
                yield f"{name}: loads `{load}` from another host"
            elif why := dead(load, path, site, pages):
                yield f"{name}: loads `{load}`, which {why}"
    for path in sorted(site.rglob("*.css")):
        for match in CSS_URL.finditer(path.read_text("utf-8")):
            url = match.group(1) or match.group(2)
            if is_elsewhere(url):
                yield f"{path.relative_to(site)}: loads `{url}` from another host"


def is_elsewhere(url: str) -> bool:
    """Whether an address is on another host."""
    return bool(urlsplit(url).netloc)


def dead(url: str, page: Path, site: Path, pages: dict[Path, PageContent]) -> str | None:
    """Why an address leads nowhere; other hosts are not asked."""
    parts = urlsplit(url)
    if parts.scheme or parts.netloc:
        return None
    if parts.path.startswith("/"):
        return None if page.name == "404.html" else "begins at the root of the host"
    to = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    if to.is_dir():
        to = to / "index.html"
    if not to.is_file() or not to.is_relative_to(site):
        return "leads nowhere"
    # A saved page of floodmark reads what follows `#` itself.
    is_document = to in pages and pages[to].words > 0
    if parts.fragment and is_document and unquote(parts.fragment) not in pages[to].anchors:
        return "names an anchor that does not exist"
    return None


def main() -> int:
    site = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else SITE
    pages = {path: read_page(path) for path in site.rglob("*.html")}
    if not pages:
        print(f"error: `{site}` has no page; run `make docs`", file=sys.stderr)
        return 1
    found = list(problems(site, pages))
    for problem in found:
        print(f"error: {problem}", file=sys.stderr)
    words = sum(page.words for page in pages.values())
    pictures = {
        (path.parent / picture).resolve()
        for path, page in pages.items()
        for picture in page.pictures
        if not picture.startswith("data:")
    }
    if not found:
        print(
            f"site: {len(pages)} pages, {words:,} words, {len(pictures)} pictures;"
            " every link leads to a page, nothing is loaded from another host"
        )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
