"""Reads Rust sources far enough to know which modules they name.

Comments, literals and items under `#[cfg(test)]` are blanked out. Nothing is expanded: a path in
the body of a macro counts for the file that has the macro.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# In this order: a quote inside a comment is no string. A lifetime (`'a`) has no closing quote.
NOT_CODE = re.compile(
    r"""//[^\n]*
      | /\*.*?\*/
      | \bb?r(?P<hashes>\#*)".*?"(?P=hashes)
      | \bb?"(?:\\.|[^"\\])*" | "(?:\\.|[^"\\])*"
      | '(?:\\[^']+|\\'|[^'\\\n])'""",
    re.VERBOSE | re.DOTALL,
)
FOR_TESTS = re.compile(r"#\[cfg\((?:test|all\(test\b[^\]]*)\)\]")
ATTRIBUTE = re.compile(r"\s*#\[")
MODULE_FILE = re.compile(r"\bmod\s+(\w+)\s*;")
MODULE_HERE = re.compile(r"\bmod\s+(\w+)\s*\{")
# `crate::`, or `super::` as often as it is repeated, where no other path precedes it.
PATH = re.compile(r"(?<![\w:])(crate|super(?:\s*::\s*super)*)\s*::\s*(?=[\w{*])")
REEXPORT = re.compile(r"\buse\s+(?:crate::)?(\w+)((?:::\w+)*)(?:::\{([^;]*)\})?(\s+as\s+\w+)?\s*;")


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


def _closing(text: str, opening: int) -> int:
    """The index after the bracket that closes the one at `opening`."""
    pairs = {"{": "}", "[": "]", "(": ")"}
    start, end = text[opening], pairs[text[opening]]
    depth = 0
    for index in range(opening, len(text)):
        if text[index] == start:
            depth += 1
        elif text[index] == end:
            depth -= 1
            if depth == 0:
                return index + 1
    return len(text)


def _end_of_item(text: str, start: int) -> int:
    """The index after the item that begins at `start`, its other attributes included."""
    while attribute := ATTRIBUTE.match(text, start):
        start = _closing(text, attribute.end() - 1)
    for index in range(start, len(text)):
        if text[index] == "{":
            return _closing(text, index)
        if text[index] == ";":
            return index + 1
    return len(text)


@dataclass(frozen=True)
class Source:
    """One file: its code, and the modules that only tests compile."""

    code: str
    test_modules: frozenset[str]


def read_source(text: str) -> Source:
    """The code of a file without comments, literals and what only tests compile."""
    code = NOT_CODE.sub(lambda match: _blank(match.group()), text)
    tests: set[str] = set()
    while match := FOR_TESTS.search(code):
        end = _end_of_item(code, match.end())
        tests.update(MODULE_FILE.findall(code[match.end() : end]))
        code = code[: match.start()] + _blank(code[match.start() : end]) + code[end:]
    return Source(code, frozenset(tests))


def module_path(path: Path) -> tuple[str, ...]:
    """The module of a file, by its path below `src`. `lib.rs` is the crate's root."""
    parts = path.with_suffix("").parts
    return parts[:-1] if parts[-1] in ("mod", "lib") else parts


def _first_names(code: str, start: int) -> list[tuple[str, ...]]:
    """The names that follow a path's `::`: one path, or the heads of a group's members."""
    if code[start] != "{":
        name = re.match(r"\w+(?:\s*::\s*\w+)*", code[start:])
        return [tuple(re.split(r"\s*::\s*", name.group()))] if name else []
    inside = code[start + 1 : _closing(code, start) - 1]
    heads: list[tuple[str, ...]] = []
    depth = 0
    head = ""
    for character in inside + ",":
        if character == "," and depth == 0:
            name = re.match(r"\s*(\w+)", head)
            if name:
                heads.append((name.group(1),))
            head = ""
            continue
        depth += {"{": 1, "}": -1}.get(character, 0)
        head += character
    return heads


def paths(code: str, module: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Every path of the crate that a file names, from the crate's root."""
    inner = [
        (match.start(), _closing(code, match.end() - 1), match.group(1))
        for match in MODULE_HERE.finditer(code)
    ]
    for match in PATH.finditer(code):
        if match.group(1) == "crate":
            base: tuple[str, ...] = ()
        else:
            enclosing = [name for start, end, name in inner if start < match.start() < end]
            here = (*module, *enclosing)
            ups = match.group(1).count("super")
            base = here[: len(here) - ups] if ups <= len(here) else ()
        for names in _first_names(code, match.end()):
            yield (*base, *names)


def reexports(code: str) -> dict[str, str]:
    """The names that `lib.rs` takes from its modules, each with its module."""
    found = {}
    for module, path, group, renamed in REEXPORT.findall(code):
        if group:
            for member in group.split(","):
                names = re.findall(r"\w+", member)
                if names:
                    found[names[-1]] = module
        elif renamed:
            found[renamed.split()[-1]] = module
        elif path:
            found[path.split("::")[-1]] = module
    return found
