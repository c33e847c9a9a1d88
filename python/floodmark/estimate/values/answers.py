"""What the user says a line reads, where a value is not known: `FILE:LINE=VALUE`.

Sees: settings and frames. Knows nothing of tensors.
"""

from __future__ import annotations


def answers_in(settings: dict[str, str]) -> dict[tuple[str, int], float]:
    """The answers among settings, by file and line: `answer.0=FILE:LINE=VALUE`."""
    found = {}
    for key, text in settings.items():
        if key.startswith("answer."):
            place, _, value = text.rpartition("=")
            file, _, line = place.rpartition(":")
            found[file, int(line)] = float(value)
    return found


def given_at(answers: dict[tuple[str, int], float], file: str, line: int) -> float | None:
    """What was said of this line."""
    for (name, number), value in answers.items():
        if number == line and (file == name or file.endswith("/" + name.lstrip("./"))):
            return value
    return None
