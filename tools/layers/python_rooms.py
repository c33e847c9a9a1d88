"""Imports between the rooms of the Python package, compared with ARCHITECTURE.md."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

# The rooms of the Python package, lowest first. What is in none of them is an entry point, which
# may import every room; a room imports only the SHARED modules of it.
PYTHON_ROOMS = (
    "reports",
    "recording",
    "changes",
    "world",
    "plugins",
    "estimate",
    "integrations",
    "doctor",
    "compat",
)
PYTHON_SHARED = {"_core", "torch_private"}
# These rooms may also use the public names, as any other program does.
PYTHON_PUBLIC = {"integrations", "compat"}
PYTHON_ROOM_ROW = re.compile(r"^\| `python/floodmark/([\w/]+)` \|[^|]*\|([^|]*)\|", re.MULTILINE)


def python_room(path: str) -> str | None:
    """The room of a module of the Python package, by its path inside it."""
    inside = [room for room in PYTHON_ROOMS if path == room or path.startswith(f"{room}/")]
    return max(inside, key=len, default=None)


def python_imports(source: str) -> Iterator[str]:
    """The modules of ours that a source imports, as paths inside the package."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            package, _, inside = name.partition(".")
            if package == "floodmark":
                yield inside.replace(".", "/")


def python_problems(sources: dict[str, str], architecture: str) -> Iterator[str]:
    """Imports between rooms of the Python package that are not in the table, or only there."""
    may_use = {
        room: set(re.findall(r"`([\w/]+)`", column)) - PYTHON_SHARED
        for room, column in PYTHON_ROOM_ROW.findall(architecture)
    }
    used: dict[str, set[str]] = {room: set() for room in PYTHON_ROOMS}
    for path, source in sorted(sources.items()):
        room = python_room(path)
        if room is None:
            continue
        for imported in sorted(set(python_imports(source))):
            other = python_room(imported)
            if not imported and room in PYTHON_PUBLIC:
                continue
            if other is None:
                if imported.split("/")[0] not in PYTHON_SHARED:
                    yield f"`python/floodmark/{path}` imports `{imported}`, an entry point"
            elif other != room:
                used[room].add(other)
                if PYTHON_ROOMS.index(other) > PYTHON_ROOMS.index(room):
                    yield f"`python/floodmark/{path}` imports `{imported}` of the room above it"
    for room in PYTHON_ROOMS:
        if room not in may_use:
            yield f"`python/floodmark/{room}` has no row in the table of the rooms"
            continue
        for other in sorted(used[room] - may_use[room]):
            yield f"`python/floodmark/{room}` uses `{other}`, which its row does not list"
        for other in sorted(may_use[room] - used[room]):
            yield f"the row of `python/floodmark/{room}` lists `{other}`, which it does not use"
