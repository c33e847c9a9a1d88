"""Header keys that other packages add to traces.

Does not import them: each registers a function that returns keys of the header.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from floodmark.recording.own_errors import OwnErrors

_sources: list[Callable[[], Mapping[str, object]]] = []


def add(source: Callable[[], Mapping[str, object]]) -> None:
    """Call `source` for keys whenever a header is written, until the process ends."""
    _sources.append(source)


def collected() -> dict[str, object]:
    """The keys of all sources."""
    found: dict[str, object] = {}
    for source in _sources:
        with OwnErrors():
            found |= source()
    return found
