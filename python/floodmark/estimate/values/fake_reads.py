"""The assumed values that a program of fake tensors reads.

A fake tensor has no values, so an answer is an assumption: zero for a number, False for a boolean,
and every row for a mask, unless `--answer` gives another one for that line. Each line that reads is
listed. Sees: calls of operators. Knows nothing of memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from floodmark import torch_private
from floodmark.estimate.values.assumed_reads import AssumedReads, number_of
from floodmark.estimate.values.fake_values import Follow

#: The assumed number of rows where it depends on values: the largest possible.
_ROWS = "all rows"


class Reads:
    """Answers for operators that read values, and the lines that call them."""

    def __init__(
        self, torch: Any, follow: Follow, answers: Sequence[tuple[str, int, float]]
    ) -> None:
        self._torch = torch
        self.value_of = follow.value_of
        self.assumed = AssumedReads(torch, answers)

    def operators(self) -> dict[Any, Callable[..., Any]]:
        """The functions that answer, by operator."""
        aten = self._torch.ops.aten
        answers: dict[Any, Callable[..., Any]] = {
            aten._local_scalar_dense.default: self._scalar,
            aten.item.default: self._scalar,
            aten.nonzero.default: self._nonzero,
            aten.masked_select.default: self._masked_select,
            aten.index.Tensor: self._index,
            aten._unique2.default: self._unique,
            aten.unique_dim.default: self._unique_dim,
            aten.unique_consecutive.default: self._unique_consecutive,
            aten.repeat_interleave.Tensor: self._repeat_interleave,
            aten.bincount.default: self._bincount,
            aten.equal.default: self._equal,
            aten.allclose.default: self._equal,
            aten.is_nonzero.default: self._scalar,
            aten._assert_async.msg: _nothing,
            aten._assert_async.default: _nothing,
        }
        return answers

    # Numbers.

    def _scalar(self, func: Any, args: Any, kwargs: Any) -> Any:
        tensor = args[0]
        given = self._given_here()
        known = self.value_of(tensor)
        if given is None and known is not None:
            return self._real_item(known)
        answer = number_of(self._torch, tensor.dtype, given or 0.0)
        self.note("item", str(answer))
        return answer

    def _real_item(self, value: Any) -> Any:
        with torch_private.outside_modes():
            return value.item()

    def _equal(self, func: Any, args: Any, kwargs: Any) -> bool:
        one, other = args[:2]
        if func is self._torch.ops.aten.equal.default and one.shape != other.shape:
            return False
        given = self._given_here()
        answer = True if given is None else bool(given)
        self.note("equal", str(answer))
        return answer

    # Rows.

    def _rows(self, op: str, most: int, mask: Any = None) -> int:
        given = self._given_here()
        known = None if mask is None else self.value_of(mask)
        if given is None and known is not None:
            with torch_private.outside_modes():
                return int(known.count_nonzero())
        if given is None:
            self.note(op, f"{most} ({_ROWS})")
            return most
        rows = min(most, int(given))
        self.note(op, str(rows))
        return rows

    def _nonzero(self, func: Any, args: Any, kwargs: Any) -> Any:
        tensor = args[0]
        rows = self._rows("nonzero", tensor.numel(), tensor)
        return tensor.new_empty((rows, tensor.dim()), dtype=self._torch.int64)

    def _masked_select(self, func: Any, args: Any, kwargs: Any) -> Any:
        tensor, mask = args
        shape = self._torch.broadcast_shapes(tensor.shape, mask.shape)
        count = 1
        for size in shape:
            count *= size
        same = mask if mask.numel() == count else None
        return tensor.new_empty((self._rows("masked_select", count, same),))

    def _index(self, func: Any, args: Any, kwargs: Any) -> Any:
        tensor, indices = args
        masks = (self._torch.bool, self._torch.uint8)
        if not any(index is not None and index.dtype in masks for index in indices):
            return func(*args, **kwargs or {})
        positions: list[Any] = []
        for index in indices:
            if index is None or index.dtype not in masks:
                positions.append(index)
                continue
            rows = self._rows("mask", index.numel(), index)
            column = index.new_empty((rows,), dtype=self._torch.int64)
            positions.extend(column for _ in range(index.dim()))
        return func(tensor, positions)

    def _unique(self, func: Any, args: Any, kwargs: Any) -> Any:
        tensor = args[0]
        rows = self._rows("unique", tensor.numel())
        numbers = self._torch.int64
        return (
            tensor.new_empty((rows,)),
            tensor.new_empty(
                tensor.shape if _flag(args, kwargs, 2, "return_inverse") else (0,), dtype=numbers
            ),
            tensor.new_empty(
                (rows if _flag(args, kwargs, 3, "return_counts") else 0,), dtype=numbers
            ),
        )

    def _unique_dim(self, func: Any, args: Any, kwargs: Any) -> Any:
        tensor, dim = args[0], args[1] if len(args) > 1 else kwargs["dim"]
        rows = self._rows("unique", tensor.shape[dim])
        shape = list(tensor.shape)
        shape[dim] = rows
        numbers = self._torch.int64
        return (
            tensor.new_empty(shape),
            tensor.new_empty((tensor.shape[dim],), dtype=numbers),
            tensor.new_empty((rows,), dtype=numbers),
        )

    def _unique_consecutive(self, func: Any, args: Any, kwargs: Any) -> Any:
        tensor = args[0]
        rows = self._rows("unique_consecutive", tensor.numel())
        numbers = self._torch.int64
        return (
            tensor.new_empty((rows,)),
            tensor.new_empty(tensor.shape, dtype=numbers),
            tensor.new_empty((rows,), dtype=numbers),
        )

    def _repeat_interleave(self, func: Any, args: Any, kwargs: Any) -> Any:
        repeats = args[0]
        size = args[1] if len(args) > 1 else (kwargs or {}).get("output_size")
        rows = self._rows("repeat_interleave", repeats.numel()) if size is None else size
        return repeats.new_empty((rows,), dtype=self._torch.int64)

    def _bincount(self, func: Any, args: Any, kwargs: Any) -> Any:
        tensor = args[0]
        named = kwargs or {}
        weights = args[1] if len(args) > 1 else named.get("weights")
        least = args[2] if len(args) > 2 else named.get("minlength", 0)
        given = self._given_here()
        rows = max(int(least), 1) if given is None else int(given)
        if not least or given is not None:
            self.note("bincount", str(rows))
        kind = self._torch.int64 if weights is None else self._torch.float64
        return tensor.new_empty((rows,), dtype=kind)

    # Locations.

    def _given_here(self) -> float | None:
        return self.assumed.line()[1]

    def note(self, op: str, answered: str) -> None:
        """List that the program read a value here, with the assumed value."""
        here, _ = self.assumed.line()
        self.assumed.add(here, op, answered, "fake tensors have no values")


def _flag(args: Any, kwargs: Any, at: int, name: str) -> bool:
    return bool(args[at] if len(args) > at else (kwargs or {}).get(name, False))


def _nothing(func: Any, args: Any, kwargs: Any) -> None:
    return None
