"""Kernels that are registered below autograd, for operators that count or create masks.

C++ calls these operators by itself, in derivative formulas, in transforms and in compiled code.
Talks to: torch's dispatcher, `phantom_values` through `_core.Kernel`. Knows nothing of values.
"""

from __future__ import annotations

import functools
import warnings
from types import ModuleType
from typing import Any

from floodmark import _core, torch_private

_Kind = _core.KernelKind

#: Operators that read from the device how much to allocate.
_COUNTS = (
    "nonzero", "nonzero.out", "_unique", "_unique2", "unique_dim", "unique_consecutive",
    "unique_dim_consecutive", "repeat_interleave.Tensor", "bincount", "_coalesce",
)  # fmt: skip
#: Operators that create masks; torch's functions of these names are `function_names.OPERATORS`.
_COMPARED = ("eq", "ne", "lt", "le", "gt", "ge")
_MASKS = (
    *(f"{name}.Scalar" for name in _COMPARED), *(f"{name}.Tensor" for name in _COMPARED),
    "logical_not", "logical_and", "logical_or", "logical_xor",
)  # fmt: skip
#: Operators on integers and masks in C++ code, which calls no function of torch.
_INTEGERS = (
    "bitwise_not", "bitwise_and.Tensor", "bitwise_or.Tensor", "bitwise_xor.Tensor", "max", "min",
    "any", "all", "cumsum", "index.Tensor", "index_select", "cat",
)  # fmt: skip
#: Operators on integers in transforms of `torch.func`, where functions see no values. Models call
#: these for floats all the time, so they get kernels only once a transform runs.
_ARITHMETIC = (
    "add.Tensor", "sub.Tensor", "mul.Tensor", "remainder.Scalar", "remainder.Tensor",
    "floor_divide", "floor_divide.Scalar", "neg", "abs", "where.self", "sum", "sum.dim_IntList",
    "bitwise_and.Scalar", "any.dim", "all.dim",
)  # fmt: skip


class Kernels:
    """The kernels of a process, registered as long as this object lives."""

    def __init__(
        self, torch: ModuleType, values: Any, own_work: _core.OwnWork, floats: list[object]
    ) -> None:
        self._torch = torch
        self._own_work = own_work
        self._values = values
        self._floats = floats
        self._library = torch_private.implementations(torch)
        self._has_arithmetic = False
        for names, kind in (
            (_COUNTS, _Kind.COUNT),
            (_MASKS, _Kind.FOLLOW),
            (_INTEGERS, _Kind.FOLLOW_UNSEEN),
        ):
            self._install(names, kind)

    def add_arithmetic(self) -> None:
        """Register the kernels for integers in transforms."""
        if not self._has_arithmetic:
            self._has_arithmetic = True
            self._install(_ARITHMETIC, _Kind.FOLLOW_UNSEEN)

    def _install(self, names: tuple[str, ...], kind: _core.KernelKind) -> None:
        with warnings.catch_warnings():
            # torch warns about each kernel that this one overrides.
            warnings.simplefilter("ignore")
            for name in names:
                operator = torch_private.operator(self._torch, name)
                if operator is not None:
                    kernel = self._kernel(operator, kind)
                    self._library.impl(name, kernel, "BackendSelect", with_keyset=True)

    def _kernel(self, operator: Any, kind: _core.KernelKind) -> Any:
        below, devices = torch_private.keys_below_autograd(self._torch)
        return _core.Kernel(
            self._values,
            self._own_work,
            operator,
            torch_private.redispatch(operator),
            functools.partial(self._torch.tensor, device="cpu"),
            torch_private.tensor_positions(operator),
            below,
            devices,
            self._floats,
            kind,
        )
