"""The last `Linear` and the loss alone, in bf16, as the benchmarks of Liger and of CCE run them.

    python bench/programs/fused_layer.py BENCHMARK LIBRARY TOKENS HIDDEN VOCABULARY FILE

BENCHMARK is `liger` or `cce` (Cut Cross Entropy). Liger's has the heads of both programs in memory,
adds up gradients, and reports the peak of allocated bytes. The other has a soft cap, starts without
gradients, and reports the peak above what was allocated before. LIBRARY computes it: `torch`,
`liger` or `cce`. FILE gets that figure in MiB, and the median of the milliseconds.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch.nn import functional as F

REPEATS = 6
SOFT_CAP = 30.0


def loss_with(
    library: str, rows: torch.Tensor, head: torch.Tensor, target: torch.Tensor, cap: float | None
) -> torch.Tensor:
    """The loss as a library computes it."""
    loss: torch.Tensor
    if library == "liger":
        from liger_kernel.ops.fused_linear_cross_entropy import LigerFusedLinearCrossEntropyFunction

        found = LigerFusedLinearCrossEntropyFunction.apply(rows, head, target)
        loss = found[0] if isinstance(found, tuple) else found
    elif library == "cce":
        from cut_cross_entropy import linear_cross_entropy

        loss = linear_cross_entropy(rows, head, target, softcap=cap)
    elif cap is None:
        loss = F.cross_entropy(rows @ head.t(), target)
    else:
        logits = torch.tanh(rows @ head.t() / cap) * cap
        loss = F.cross_entropy(logits.float(), target)
    return loss


def measured(
    compute: Callable[[], torch.Tensor], leaves: list[torch.Tensor], *, is_cce: bool
) -> tuple[float, float]:
    """MiB and milliseconds of a forward and a backward pass."""
    if is_cce:
        for leaf in leaves:
            leaf.grad = None
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before, began = torch.cuda.memory_allocated(), time.perf_counter()
    compute().backward()
    torch.cuda.synchronize()
    taken = time.perf_counter() - began
    peak = torch.cuda.max_memory_allocated() - (before if is_cce else 0)
    return peak / 2**20, taken * 1e3


def random(*shape: int, deviation: float) -> torch.Tensor:
    """Random numbers with a gradient."""
    found = torch.empty(shape, dtype=torch.bfloat16, device="cuda")
    return found.normal_(std=deviation).requires_grad_()


def main() -> None:
    benchmark, library, *sizes, file = sys.argv[1:]
    tokens, hidden, vocabulary = map(int, sizes)
    is_cce = benchmark == "cce"
    heads = [random(vocabulary, hidden, deviation=0.02) for _ in range(1 if is_cce else 2)]
    rows = random(tokens, hidden, deviation=1.0)
    target = torch.randint(vocabulary, (tokens,), device="cuda")
    # Both scripts have run products in both passes before: workspaces of cuBLAS are there.
    (rows[:16] @ heads[0][:16].t()).sum().backward()
    heads[0].grad = rows.grad = None
    head, cap = heads[-1], SOFT_CAP if is_cce else None

    def compute() -> torch.Tensor:
        return loss_with(library, rows, head, target, cap)

    found = [measured(compute, [rows, head], is_cce=is_cce) for _ in range(REPEATS)]
    times = statistics.median(taken for _, taken in found[2:])
    Path(file).write_text(json.dumps({"mib": found[-1][0], "milliseconds": times}))


if __name__ == "__main__":
    main()
