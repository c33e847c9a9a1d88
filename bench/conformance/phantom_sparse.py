"""Cases of `phantom_models.py` with sparse matrices, for the buffers of cuSPARSE."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from phantom_models import CASES, Step

#: Rows, columns and non-zero values of each row.
SHAPES = ((1000, 800, 7), (20_000, 5_000, 30), (300_000, 1_000, 3))


def matrix(rows: int, columns: int, each: int, dtype: Any = torch.float32) -> Any:
    """A matrix in CSR with equally many values in each row, at regular places."""
    starts = torch.arange(0, rows * each + 1, each, device="cuda")
    step = max(1, columns // each)
    places = torch.arange(each, device="cuda") * step
    columns_of = places.repeat(rows)
    values = torch.ones(rows * each, device="cuda", dtype=dtype)
    return torch.sparse_csr_tensor(starts, columns_of, values, (rows, columns))


def products(a: Any, dense: Any) -> None:
    a @ dense


def vectors(a: Any, dense: Any) -> None:
    a @ dense[:, 0].contiguous()


def coordinates(a: Any, dense: Any) -> None:
    torch.sparse.mm(a.to_sparse_coo(), dense)


def columns_first(a: Any, dense: Any) -> None:
    a.to_sparse_csc() @ dense


def blocks(a: Any, dense: Any) -> None:
    a.to_sparse_bsr((2, 2)) @ dense


def sums(a: Any, dense: Any) -> None:
    torch.add(a, a)


def sampled(a: Any, dense: Any) -> None:
    left = torch.ones(a.shape[0], 16, device="cuda")
    torch.sparse.sampled_addmm(a, left, dense.t()[:16].contiguous())


def solved(a: Any, dense: Any) -> None:
    rows = a.shape[0]
    ones = torch.ones(rows, device="cuda")
    starts = torch.arange(rows + 1, device="cuda")
    diagonal = torch.sparse_csr_tensor(starts, starts[:-1].clone(), ones, (rows, rows))
    torch.triangular_solve(torch.ones(rows, 4, device="cuda"), diagonal, upper=False)


def gathered(a: Any, dense: Any) -> None:
    a.to_sparse_coo().t().coalesce()


def register(operation: Callable[[Any, Any], None]) -> None:
    """Make a case of an operation: all shapes, and two types of numbers."""

    def build() -> tuple[Any, Step]:
        def step() -> None:
            for rows, columns, each in SHAPES:
                for dtype in (torch.float32, torch.float64):
                    a = matrix(rows, columns, each, dtype)
                    dense = torch.ones(columns, 32, device="cuda", dtype=dtype)
                    if operation not in (sampled, solved) or dtype is torch.float32:
                        operation(a, dense)

        return None, step

    CASES[f"sparse_{operation.__name__}"] = build


for each in (
    products,
    vectors,
    coordinates,
    columns_first,
    blocks,
    sums,
    sampled,
    solved,
    gathered,
):
    register(each)
