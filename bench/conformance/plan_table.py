"""Tables of plans and of their runs on a GPU, for the scripts that compare plans.

Sees: the folder in which they write a JSON file for each model and part (`MODEL.json`,
`MODEL.run.json`). Knows nothing of how those are computed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import machine

MIB = 1 << 20

#: The stored part of a model by name, "" for the plan; None if it is missing.
Stored = Callable[[str], Any]


def store(folder: Path, model: str, part: str, found: dict[str, Any]) -> None:
    """Write a part of a model."""
    (folder / f"{model}{part}.json").write_text(json.dumps(found, indent=1) + "\n")


def stored_in(folder: Path, model: str) -> Stored:
    """The parts of a model."""

    def part_of(part: str) -> Any:
        path = folder / f"{model}{part}.json"
        return json.loads(path.read_text()) if path.exists() else None

    return part_of


def print_table(
    folder: Path,
    models: Iterable[str],
    head: list[str],
    rows_of: Callable[[Stored], list[list[str]]],
) -> None:
    """Rows of every model with a plan, as Markdown. The first column, the model, is added here."""
    rows = []
    for model in models:
        stored = stored_in(folder, model)
        if stored("") is not None:
            for at, cells in enumerate(rows_of(stored)):
                cells += [""] * (len(head) - len(cells))
                rows.append(["" if at else model, *cells])
    print(machine.table(["model", *head], rows, texts=True))


def mib(amount: int | None) -> str:
    """Bytes as MiB."""
    return "?" if amount is None else f"{amount / MIB:,.0f}"


def multiple(value: float | None) -> str:
    """A ratio of times."""
    return "?" if value is None else f"{value:.2f} ×"


def named(changes: list[str]) -> str:
    """The changes of a plan."""
    return ", ".join(f"`{change}`" for change in changes) or "none needed"
