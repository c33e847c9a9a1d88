"""Lets two tries of one program do the same: what would differ by chance is fixed.

`fit` and `plan` compare tries, of which some are new processes and others forks of one that has
imported everything. Where a program draws random numbers, or frees reference cycles only when
Python collects them, two runs of it need different memory. So a try begins with fixed seeds, and
counts anew for the collector when CUDA begins and after the first steps: until then, a new process
has created the objects of all that it imports, and a fork has not. Strings have the same hashes in
all tries, because `PYTHONHASHSEED` is set for them. Only tries do this: an estimate by itself runs
the program as it is.

Sees: `random`, NumPy, the garbage collector.
"""

from __future__ import annotations

import contextlib
import gc
import random
from types import ModuleType
from typing import Any

from floodmark.recording.import_watch import ImportWatch

_SEED = 0

#: The first steps, in which a program may import what it has not used before.
STEPS = 2


def begin() -> None:
    """Give the program the same random numbers in each try; torch's own seeds are fixed already."""
    random.seed(_SEED)
    ImportWatch("numpy", _seed_numpy)


def _seed_numpy(numpy: ModuleType) -> None:
    with contextlib.suppress(Exception):
        any_numpy: Any = numpy
        any_numpy.random.seed(_SEED)


def collect_young() -> None:
    """Free the cycles that became garbage lately, and count anew until the next collection.

    What a full collection would find stays: in a fork, looking at all objects copies their memory.
    """
    gc.collect(1)
    # The second collection looks at nothing: it sets the counts to 0, and frees the objects that
    # Python keeps for reuse, which are not counted.
    gc.freeze()
    gc.collect()
    gc.unfreeze()
