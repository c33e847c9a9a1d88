"""A GPU for a torch that cannot see one: what `torch.cuda` answers in Python.

Where torch was built with CUDA the phantom's library answers for it, below torch. Elsewhere (CPU
builds, other systems) these do, for the time of a block. Sees: torch.cuda. Undoes itself.
"""

from __future__ import annotations

import os
from types import ModuleType

from floodmark.plugins import Plugin, Setting


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
