"""A second reader of `.flood` files, for tests: pyarrow and the format's page, nothing of ours.

Sees: a finished file. Knows nothing of journals, damage or reports.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow

EVENTS, STACKS, CODES, MODULES, LABELS, TEXTS, SOURCE = 2, 3, 4, 5, 6, 7, 10
ALLOC, FREE, FREE_UNKNOWN, OOM, INITIAL_BLOCK = 1, 2, 3, 9, 18
BACKWARD = 1


@dataclass(frozen=True)
class Frame:
    """One frame of a stack."""

    file: str
    line: int
    function: str
    module: int

    @property
    def name(self) -> str:
        """The function without the functions around it: Python 3.10 knows no more."""
        return self.function.rsplit(".", 1)[-1]


@dataclass(frozen=True)
class Event:
    """One row of the events table, with what its numbers stand for. `frames`: innermost first."""

    kind: int
    bytes: int
    thread: int
    micros: int
    addr: int
    backward: bool
    phase: str
    op: str
    frames: tuple[Frame, ...]
    module: str | None
    #: For a free: the size with which the block was allocated, and whether that was before.
    freed_bytes: int = 0
    of_initial_block: bool = False

    def is_in(self, function: str) -> bool:
        """Whether a function of this name is on the stack."""
        return any(frame.name == function for frame in self.frames)


def _payloads(file: bytes) -> Iterator[tuple[int, bytes]]:
    """The kind and the payload of each frame."""
    assert file[:4] == b"FLOD"
    at = 8
    while file[at : at + 4] == b"\xf1\x0dFR":
        length = int.from_bytes(file[at + 4 : at + 8], "little")
        yield int.from_bytes(file[at + 12 : at + 14], "little"), file[at + 16 : at + 16 + length]
        at += 16 + length


def _source_name(payload: bytes) -> str:
    """The path of a copied source file: its length, then the path."""
    return payload[4 : 4 + int.from_bytes(payload[:4], "little")].decode()


class FloodFile:
    """All tables of a file, as lists of rows."""

    def __init__(self, path: str | Path) -> None:
        payloads: dict[int, bytes] = {}
        #: The paths of the source files that the trace has a copy of.
        self.sources: list[str] = []
        for kind, payload in _payloads(Path(path).read_bytes()):
            payloads[kind] = payloads.get(kind, b"") + payload
            if kind == SOURCE:
                self.sources.append(_source_name(payload))

        def rows(kind: int) -> list[dict[str, Any]]:
            if kind not in payloads:
                return []
            return pyarrow.ipc.open_stream(payloads[kind]).read_all().to_pylist()

        self.codes = {row["id"]: row for row in rows(CODES)}
        self.stacks = {row["id"]: row for row in rows(STACKS)}
        self.labels = {row["id"]: row for row in rows(LABELS)}
        self.texts = {row["id"]: row["text"] for row in rows(TEXTS)}
        self.modules: dict[int, dict[str, Any]] = {}
        for row in rows(MODULES):
            module = self.modules.setdefault(row["id"], {"class": row["class"], "names": []})
            if row["root"]:
                module["names"].append((row["root"], row["name"]))
        self.frames: dict[int, tuple[Frame, ...]] = {0: ()}
        self.module_paths: dict[int, str | None] = {0: None}
        self._follow_stacks()
        self.events = self._events(rows(EVENTS))

    def _follow_stacks(self) -> None:
        """Frames (innermost first) and module of every stack. A caller has the smaller number."""
        for stack, row in sorted(self.stacks.items()):
            code = self.codes.get(row["code"], {"file": "", "name": ""})
            frame = Frame(code["file"], row["line"], code["name"], row["module"])
            self.frames[stack] = (frame, *self.frames[row["parent"]])
            path = self.module_paths[row["parent"]]
            self.module_paths[stack] = self._name(row["module"], path) if row["module"] else path

    def _name(self, number: int, around: str | None) -> str:
        """The qualified name of a module; of several, the one that goes on from outside."""
        module = self.modules[number]
        names = [name or self.modules[root]["class"] for root, name in module["names"]]
        inside = [name for name in names if around is not None and name.startswith(f"{around}.")]
        return (inside or names or [f"<{module['class']}>"])[0]

    def _events(self, rows: list[dict[str, Any]]) -> list[Event]:
        events = []
        made: list[tuple[int, bool]] = []
        micros = 0
        for row in rows:
            micros += row["micros_later"]
            has_stack = row["kind"] in (ALLOC, OOM)
            freed = made[-row["allocations_ago"]] if row["kind"] == FREE else (0, False)
            events.append(
                Event(
                    kind=row["kind"],
                    bytes=row["bytes"],
                    thread=row["thread"],
                    micros=micros,
                    addr=row["addr"],
                    backward=bool(row["flags"] & BACKWARD),
                    phase=self.texts.get(row["phase"], ""),
                    op=self.texts.get(row["op"], ""),
                    frames=self.frames[row["stack"]] if has_stack else (),
                    module=self.module_paths[row["stack"]] if has_stack else None,
                    freed_bytes=freed[0],
                    of_initial_block=freed[1],
                )
            )
            if row["kind"] in (ALLOC, INITIAL_BLOCK):
                made.append((row["bytes"], row["kind"] == INITIAL_BLOCK))
        return events

    def allocations(self, size: int | None = None) -> list[Event]:
        """The allocations, of one size where one is named."""
        made = [event for event in self.events if event.kind == ALLOC]
        return made if size is None else [event for event in made if event.bytes == size]


def line_of(function: Callable[..., Any], mark: str) -> int:
    """The line of a function's source that ends with `# mark`."""
    lines, first = inspect.getsourcelines(function)
    found = [at for at, line in enumerate(lines, first) if line.rstrip().endswith(f"# {mark}")]
    assert len(found) == 1, f"{len(found)} lines are marked {mark!r}"
    return found[0]
