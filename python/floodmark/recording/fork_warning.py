"""Suppresses Python's fork warning where the recorder's thread is the only other thread.

Since 3.12 Python warns when a process with several threads forks, and counts native threads too.
The recorder's thread is prepared for a fork, so a program without threads of its own gets no
warning, as without the recorder. Sees: the threads of this process. Talks to: `warnings`.
"""

from __future__ import annotations

import os
import sys
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

from floodmark import _core

_OWN_NAME = "floodmark-"
_is_watching = False


def watch_forks() -> None:
    """Filter the warning at every fork of this process from now on."""
    global _is_watching
    if sys.version_info >= (3, 12) and not _is_watching:
        os.register_at_fork(before=_before, after_in_child=_remove)
        _is_watching = True


class _ForkMessage:
    """The pattern of a warning filter: matches the warning once, then removes its filter."""

    def match(self, text: str) -> bool:
        is_meant = "is multi-threaded, use of " in text
        if is_meant:
            _remove()
        return is_meant


_FILTER: Any = ("ignore", _ForkMessage(), DeprecationWarning, None, 0)


def _before() -> None:
    # `filterwarnings` would reset the registry of warnings that were already shown.
    if _core.is_recording() and _has_no_other_thread() and _FILTER not in warnings.filters:
        _filters().insert(0, _FILTER)


def _remove() -> None:
    if _FILTER in warnings.filters:
        _filters().remove(_FILTER)


def _filters() -> list[Any]:
    # A list at run time; its type is only a sequence.
    return warnings.filters  # type: ignore[return-value]


def _has_no_other_thread() -> bool:
    count = 0
    try:
        for task in Path("/proc/self/task").iterdir():
            # A thread may end meanwhile.
            with suppress(FileNotFoundError, ProcessLookupError):
                count += not (task / "comm").read_text().startswith(_OWN_NAME)
    except OSError:
        return False
    return count == 1
