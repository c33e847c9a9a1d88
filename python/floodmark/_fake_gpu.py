"""A GPU for a torch that cannot see one: what `torch.cuda` answers in Python.

Where torch was built with CUDA the phantom's library answers for it, below torch. Elsewhere (CPU
builds, other systems) these do, for the time of a block. Sees: torch.cuda. Undoes itself.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from functools import partial
from types import ModuleType
from typing import Any

from floodmark import _played
from floodmark.plugins import Plugin, Setting

#: What undoes the hiding of devices that only a block may see.
_hidden: list[Callable[[], None]] = []


@contextlib.contextmanager
def shown(torch: Any) -> Iterator[None]:
    """The phantom's devices for a block; after it torch says again that there are none.

    The library cannot be unloaded: a program that then asks whether there is a GPU must not take
    the phantom for one.
    """
    show()
    try:
        yield
    finally:
        # A phantom that the user asked for stays.
        if _played.played() is None:
            _hide(torch)


def show() -> None:
    """Let torch see the phantom's devices again."""
    while _hidden:
        _hidden.pop()()


def _hide(torch: Any) -> None:
    for name, answer in (("is_available", lambda: False), ("device_count", lambda: 0)):
        _hidden.append(partial(setattr, torch.cuda, name, getattr(torch.cuda, name)))
        setattr(torch.cuda, name, answer)


def allocator_config() -> str:
    """The allocator's settings, as torch would read them."""
    return os.environ.get("PYTORCH_CUDA_ALLOC_CONF") or os.environ.get("PYTORCH_ALLOC_CONF", "")


class Devices(Plugin):
    """Devices that torch does not have."""

    name = "torch.cuda"
    library = "torch"

    def __init__(self, setting: Setting, settings: dict[str, str]) -> None:
        super().__init__(setting)
        self._settings = settings

    def attach(self, torch: ModuleType) -> None:
        """Patch `torch.cuda`."""
