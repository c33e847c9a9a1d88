"""Arrows between the top modules of a crate, compared with the list in the header of its `lib.rs`.

The list is numbered from the bottom up. A module uses modules with a smaller number only.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from layers.graph import components
from layers.rust_source import MODULE_FILE, module_path, paths, read_source, reexports

# A crate with at most this number of modules needs no list.
FEW_MODULES = 3
# Stands for what `lib.rs` itself defines.
ROOT = "lib.rs"

HEADER_LINE = re.compile(r"^//! ?(.*)$")
ITEM = re.compile(r"^(\d+)\. +(.*)$")
MODULES = re.compile(r"(?:^|;)\s*((?:\[?`\w+`\]?(?:\s*,\s*|\s+and\s+)?)+):")


@dataclass(frozen=True)
class Crate:
    """The top modules of a crate, and the number of references between them."""

    modules: frozenset[str]
    edges: Counter[tuple[str, str]]
    places: dict[tuple[str, str], str]
    """The first file of each edge."""

    def graph(self) -> dict[str, set[str]]:
        """The modules that each module names."""
        graph: dict[str, set[str]] = {module: set() for module in self.modules}
        for user, used in self.edges:
            graph[user].add(used)
        return graph


def read_crate(folder: Path) -> Crate:
    """Reads the sources below `folder/src`. Programs of the crate (`main.rs`, `bin/`) use its
    library, and are left out."""
    root = folder / "src"
    sources = {
        module_path(file.relative_to(root)): (file, read_source(file.read_text(encoding="utf-8")))
        for file in sorted(root.rglob("*.rs"))
        if file != root / "main.rs" and root / "bin" not in file.parents
    }
    lib = sources.pop((), None)
    if lib is None:
        return Crate(frozenset(), Counter(), {})
    modules = frozenset(MODULE_FILE.findall(lib[1].code))
    taken = reexports(lib[1].code)
    tests: set[tuple[str, ...]] = {(name,) for name in lib[1].test_modules}
    tests |= {
        (*module, name) for module, (_, source) in sources.items() for name in source.test_modules
    }
    edges: Counter[tuple[str, str]] = Counter()
    places: dict[tuple[str, str], str] = {}
    for module, (file, source) in sources.items():
        if module[0] not in modules or any(module[: len(test)] == test for test in tests):
            continue
        for path in paths(source.code, module):
            used = path[0] if path[0] in modules else taken.get(path[0], ROOT)
            if used != module[0] and (used in modules or used == ROOT):
                edges[module[0], used] += 1
                places.setdefault((module[0], used), file.relative_to(folder).as_posix())
    return Crate(modules, edges, places)


def drawing(lib: str) -> list[list[str]]:
    """The modules of each line of the list below `## Modules` in a header, from the bottom up."""
    items: list[str] = []
    inside = False
    for line in lib.splitlines():
        header = HEADER_LINE.match(line)
        if header is None:
            if line.strip():
                break
            continue
        text = header.group(1)
        if text.startswith("#"):
            inside = text.strip("# ").lower() == "modules"
        elif inside and ITEM.match(text):
            items.append(text.split(". ", 1)[1].strip())
        elif inside and items and text.strip():
            items[-1] += " " + text.strip()
    return [
        [name for names in MODULES.findall(item) for name in re.findall(r"`(\w+)`", names)]
        for item in items
    ]


def module_problems(name: str, folder: Path) -> Iterator[str]:
    """What is wrong with the modules of one crate."""
    lib = folder / "src/lib.rs"
    if not lib.exists():
        return
    crate = read_crate(folder)
    lines = drawing(lib.read_text(encoding="utf-8"))
    if not lines:
        if len(crate.modules) > FEW_MODULES:
            yield f"`{name}` has no list of its {len(crate.modules)} modules in src/lib.rs"
        for cycle in components(crate.graph()):
            yield f"modules of `{name}` use each other: {', '.join(cycle)}"
        return
    yield from drawing_problems(name, crate, lines)


def drawing_problems(name: str, crate: Crate, lines: list[list[str]]) -> Iterator[str]:
    """Where the list of a crate and its sources differ."""
    numbers: dict[str, int] = {}
    for number, modules in enumerate(lines, start=1):
        if not modules:
            yield f"line {number} of the list in `{name}` names no module before a colon"
        for module in modules:
            if module in numbers:
                yield f"the list of `{name}` names `{module}` twice"
            numbers[module] = number
    for module in sorted(crate.modules - numbers.keys()):
        yield f"the list of `{name}` does not name `{module}`"
    for module in sorted(numbers.keys() - crate.modules):
        yield f"the list of `{name}` names `{module}`, which is no module of it"
    for (user, used), count in sorted(crate.edges.items()):
        place = f"{name}/{crate.places[user, used]}"
        if used == ROOT:
            yield (
                f"{place}: `{user}` uses what src/lib.rs defines ({count}): "
                "move it into a module below both"
            )
        elif user in numbers and used in numbers and numbers[used] >= numbers[user]:
            where = "beside" if numbers[used] == numbers[user] else "above"
            yield (
                f"{place}: `{user}` ({numbers[user]}) uses `{used}` ({numbers[used]}), "
                f"which stands {where} it ({count})"
            )


def graph_text(crate: Crate) -> str:
    """The arrows of a crate, one line for each module, and its cycles."""
    graph = crate.graph()
    rows = [
        f"{module}: "
        + (
            ", ".join(f"{used} ({crate.edges[module, used]})" for used in sorted(graph[module]))
            or "-"
        )
        for module in sorted(graph)
    ]
    cycles = components(graph)
    rows.append(f"{len(crate.modules)} modules, {len(crate.edges)} arrows, {len(cycles)} cycles")
    rows += [f"cycle: {', '.join(cycle)}" for cycle in cycles]
    return "\n".join(rows)
