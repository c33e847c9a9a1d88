"""Which code is floodmark's own: that of the packages of its wheel.

Sees: where this package lies. Imports none of the packages.
"""

from __future__ import annotations

import os
from pathlib import Path

_PACKAGES = ("floodmark", "floodmark_compat")
_PARENT = Path(__file__).parents[1]

#: The folders of the packages, each with a separator at its end.
FOLDERS = tuple(f"{_PARENT / package}{os.sep}" for package in _PACKAGES)


def is_own_module(name: str) -> bool:
    """Whether a module, by its full name, is one of ours."""
    return name.partition(".")[0] in _PACKAGES
