"""What the user says a line reads, where a value is not known: `FILE:LINE=VALUE`.

Sees: the machine and frames. Knows nothing of tensors.
"""

from __future__ import annotations

from floodmark import _core


def answers_of(machine: _core.PhantomMachine) -> dict[tuple[str, int], float]:
    """The answers for a machine, by file and line."""
    return {(file, line): value for file, line, value in machine.answers}


def given_at(answers: dict[tuple[str, int], float], file: str, line: int) -> float | None:
    """What was said of this line."""
    for (name, number), value in answers.items():
        if number == line and (file == name or file.endswith("/" + name.lstrip("./"))):
            return value
    return None
