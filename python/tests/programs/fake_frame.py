"""What the cases of `fake_cases.py` are made with.

Each is a function that is given `mark`, which notes what is allocated now.
"""

from __future__ import annotations

import gc
import importlib.util
from collections.abc import Callable
from typing import Any

Mark = Callable[[], None]
CASES: dict[str, Callable[[Mark], Any]] = {}
MIB = 1 << 20
#: Cases that need a torch of at least this version.
LATER_THAN: dict[str, tuple[int, int]] = {"distributed_tensors": (2, 5)}


def case(run: Callable[[Mark], Any]) -> Callable[[Mark], Any]:
    """A case under its name."""
    CASES[run.__name__] = run
    return run


def case_of(module: str) -> Callable[..., Any]:
    """A case that a part of the package makes possible, where that is there."""
    is_there = importlib.util.find_spec(f"floodmark.{module}") is not None
    return case if is_there else lambda run: run


def measured(run: Callable[[Mark], Any]) -> dict[str, Any]:
    """What a case had allocated at its marks, at most, and after it."""
    import torch

    gc.collect()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    marks: list[int] = []
    found: dict[str, Any] = {"alive": marks}
    try:
        found["said"] = run(lambda: marks.append(torch.cuda.memory_allocated() - before))
    except Exception as error:
        found["error"] = f"{type(error).__name__}: {str(error)[:300]}"
    gc.collect()
    found["peak"] = torch.cuda.max_memory_allocated() - before
    found["after"] = torch.cuda.memory_allocated() - before
    return found


def floats(mib: float, **options: Any) -> Any:
    """A tensor of this many MiB."""
    import torch

    return torch.empty(int(mib * MIB) // 4, device="cuda", **options)


def mlp(width: int = 512, depth: int = 3) -> Any:
    """Linears and activations."""
    from torch import nn

    layers = [layer for _ in range(depth) for layer in (nn.Linear(width, width), nn.GELU())]
    return nn.Sequential(*layers).cuda()


def batch(rows: int = 1024, width: int = 512, **options: Any) -> Any:
    """What `mlp` takes."""
    import torch

    return torch.randn(rows, width, device="cuda", **options)
