"""The pictures of `floodmark_compat.memory_tracker`.

Figures of matplotlib where it is installed, as in the original, and PNG files elsewhere. Both have
the same four: the three series together, then each by itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from floodmark import _core

Series = dict[int, tuple[str, float]]

_ACROSS = "# Operator Calls"
_UP = "Memory (MB)"


def show(series: dict[str, Series], markers: dict[str, int], beside: Path) -> None:
    """Draw all four: figures, or files whose names begin with `beside`."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        for name, lines in _pictures(series):
            path = Path(f"{beside}.{name}.png")
            path.write_bytes(_drawn(lines, markers))
            print(f"wrote `{path}`")
        return
    for _, lines in _pictures(series):
        _figure(plt, lines, markers)


def _pictures(series: dict[str, Series]) -> Iterator[tuple[str, dict[str, Series]]]:
    yield "memory", series
    for name, levels in series.items():
        yield name, {name: levels}


def _figure(plt: Any, lines: dict[str, Series], markers: dict[str, int]) -> None:
    _, axes = plt.subplots()
    heights = [level for levels in lines.values() for _, level in levels.values()]
    for name, levels in lines.items():
        axes.plot(list(levels), [level for _, level in levels.values()], label=name)
    for name, at in markers.items():
        colour = "red" if name == "fw_bw_boundary" else "black"
        axes.vlines(at, min(heights), max(heights), colors=colour, linewidth=2, label=name)
    axes.set_xlabel(_ACROSS)
    axes.set_ylabel(_UP)
    axes.legend()


def _drawn(lines: dict[str, Series], markers: dict[str, int]) -> bytes:
    points = {
        name: [[at, level * 1024 * 1024] for at, (_, level) in levels.items()]
        for name, levels in lines.items()
    }
    marks = [
        {"at": at, "name": name, "emphasis": "strong" if "boundary" in name else "plain"}
        for name, at in markers.items()
    ]
    calls = max(len(levels) for levels in lines.values())
    chart = {
        "title": "Memory after every operator",
        "subtitle": f"{calls} operator calls",
        "across": "count",
        "across_name": _ACROSS,
        # The last line lies on top of the others.
        "series": [{"name": name, "points": each} for name, each in reversed(points.items())],
        "marks": marks,
    }
    return _core.draw(json.dumps(chart), "png")
