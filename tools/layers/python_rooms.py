"""Imports between the rooms of the Python packages, compared with ARCHITECTURE.md."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

# The rooms of `floodmark`, lowest first, and the package beside it. What is in none of them is an
# entry point, which may import every room below; a room imports only the SHARED modules of it.
COMPAT = "floodmark_compat"
PYTHON_ROOMS = (
    "reports",
    "recording",
    "changes",
    "world",
    "plugins",
    "estimate",
    "integrations",
    "doctor",
    COMPAT,
)
PYTHON_SHARED = {
    "_core",
    "own_code",
    "torch_private",
    "torch_private_distributed",
    "torch_private_fakes",
}
# These rooms may also use the public names, as any other program does.
PYTHON_PUBLIC = {"integrations", COMPAT}
PYTHON_ROOM_ROW = re.compile(
    r"^\| `python/(?:floodmark/)?([\w/]+)` \|[^|]*\|([^|]*)\|", re.MULTILINE
)


def python_room(path: str) -> str | None:
    """The room of a module, by its path inside `python`."""
    path = path.removeprefix("floodmark/")
    inside = [room for room in PYTHON_ROOMS if path == room or path.startswith(f"{room}/")]
    return max(inside, key=len, default=None)


def python_imports(source: str) -> Iterator[str]:
    """The modules of ours that a source imports, as paths inside `python`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            if name.partition(".")[0] in ("floodmark", COMPAT):
                yield name.replace(".", "/")


def python_problems(sources: dict[str, str], architecture: str) -> Iterator[str]:
    """Imports between rooms of Python that are not in the table, or only there."""
    may_use = {
        room: set(re.findall(r"`([\w/]+)`", column)) - PYTHON_SHARED
        for room, column in PYTHON_ROOM_ROW.findall(architecture)
    }
    used: dict[str, set[str]] = {room: set() for room in PYTHON_ROOMS}
    for path, source in sorted(sources.items()):
        room = python_room(path)
        for imported in sorted(set(python_imports(source))):
            other = python_room(imported)
            if room is None:
                if other == COMPAT:
                    yield f"`python/{path}` imports `{imported}` of the package above it"
            elif other is None:
                name = imported.removeprefix("floodmark").removeprefix("/").partition("/")[0]
                if name not in PYTHON_SHARED and not (room in PYTHON_PUBLIC and not name):
                    yield f"`python/{path}` imports `{imported}`, an entry point"
            elif other != room:
                used[room].add(other)
                if PYTHON_ROOMS.index(other) > PYTHON_ROOMS.index(room):
                    yield f"`python/{path}` imports `{imported}` of the room above it"
    for room in PYTHON_ROOMS:
        folder = f"python/{room}" if room == COMPAT else f"python/floodmark/{room}"
        if room not in may_use:
            yield f"`{folder}` has no row in the table of the rooms"
            continue
        for other in sorted(used[room] - may_use[room]):
            yield f"`{folder}` uses `{other}`, which its row does not list"
        for other in sorted(may_use[room] - used[room]):
            yield f"the row of `{folder}` lists `{other}`, which it does not use"
