"""Tables of plans, and what a GPU made of them: shared by the programs that compare plans.

Sees: the folder in which they leave a JSON file for each model and part (`MODEL.json`,
`MODEL.run.json`). Knows nothing of how those are made.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

MIB = 1 << 20

#: What is stored of a model under the name of a part: "" for the plan; None where nothing is.
Stored = Callable[[str], Any]


def store(folder: Path, model: str, part: str, found: dict[str, Any]) -> None:
    """Keep a part of what is known of a model."""
    (folder / f"{model}{part}.json").write_text(json.dumps(found, indent=1) + "\n")


def stored_in(folder: Path, model: str) -> Stored:
    """What is known of a model."""

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
    print("| " + " | ".join(["model", *head]) + " |")
    print("|---" * (len(head) + 1) + "|")
    for model in models:
        stored = stored_in(folder, model)
        if stored("") is not None:
            for at, cells in enumerate(rows_of(stored)):
                cells += [""] * (len(head) - len(cells))
                print("| " + " | ".join(["" if at else model, *cells]) + " |")


def mib(amount: int | None) -> str:
    """Bytes as MiB."""
    return "?" if amount is None else f"{amount / MIB:,.0f}"


def multiple(value: float | None) -> str:
    """A ratio of times."""
    return "?" if value is None else f"{value:.2f} ×"


def named(changes: list[str]) -> str:
    """The changes of a plan."""
    return ", ".join(f"`{change}`" for change in changes) or "none needed"
