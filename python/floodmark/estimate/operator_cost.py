"""Counts the operations and bytes of a step's operators, to estimate its time.

A dispatch mode sees all operators, also those of backward passes. torch may allocate differently
under a mode, so this runs after the recording (`step_cost`), or in a run whose memory does not
count. Operators of one kind and data type with a similar ratio of operations to bytes are added up.

Sees: torch's operators. Talks to: its callers.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from floodmark import torch_private
from floodmark.recording.backward_passes import PassWatch

if TYPE_CHECKING:
    from floodmark.reports.answer_types import OperatorCost, OperatorKind, StepCost

#: Operators that allocate or describe memory and start no kernel.
_WITHOUT_KERNEL = (
    "empty",
    "new_empty",
    "empty_like",
    "empty_strided",
    "lift_fresh",
    "_local_scalar",
)


class OperatorCounter:
    """Counts operators from `attach` to `detach`; reports the last complete step."""

    def __init__(self) -> None:
        self._current: dict[tuple[OperatorKind, str, int], list[int]] = {}
        self._last: dict[tuple[OperatorKind, str, int], list[int]] = {}
        self._passes = 0
        self._mode: Any = None
        self._watch: PassWatch | None = None

    def attach(self, torch: Any) -> None:
        """Enter the mode that counts."""
        self._mode = _mode_class(torch, self._count)()
        self._mode.__enter__()
        self._watch = PassWatch(torch, lambda: None, self._pass_ended)

    def detach(self) -> bool:
        """Leave the mode; returns False if another mode is above it."""
        modes = torch_private.dispatch_modes()
        if not modes or modes[-1] is not self._mode:
            return False
        self._mode.__exit__(None, None, None)
        if self._watch is not None:
            self._watch.remove()
        return True

    def step_ended(self) -> None:
        """End a step: later operators belong to the next one."""
        self._last, self._current = self._current, {}

    def _pass_ended(self) -> None:
        self._passes += 1

    def _count(self, kind: OperatorKind, dtype: str, flops: int, moved: int) -> None:
        ratio = (flops // moved).bit_length() if moved else 0
        row = self._current.setdefault((kind, dtype, ratio), [0, 0, 0])
        row[0] += 1
        row[1] += flops
        row[2] += moved

    def cost(self) -> StepCost:
        """The cost of the last complete step, or of the whole program without steps."""
        rows = self._last or self._current
        operators: list[OperatorCost] = [
            {
                "kind": kind,
                "dtype": dtype,
                "count": count,
                "flops": flops,
                "bytes": moved,
            }
            for (kind, dtype, _), (count, flops, moved) in sorted(rows.items())
        ]
        return {
            "backward_passes": self._passes,
            "operators": operators,
            "host_nanos": None,
        }


def _mode_class(torch: Any, count: Callable[[OperatorKind, str, int, int], None]) -> Any:
    from torch.utils.flop_counter import flop_registry

    leaves = torch_private.trees().tree_leaves
    base = torch_private.dispatch_mode_class()

    class Counting(base):  # type: ignore[misc, valid-type]
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            result = func(*args, **(kwargs or {}))
            # An error of ours must not reach the program.
            with contextlib.suppress(Exception):
                _count_one(func, args, kwargs or {}, result)
            return result

    def _count_one(func: Any, args: Any, kwargs: Any, result: Any) -> None:
        packet = func.overloadpacket
        name = packet.__name__
        if name.startswith(_WITHOUT_KERNEL) or _is_view(func):
            return
        given = [one for one in leaves((args, kwargs)) if isinstance(one, torch.Tensor)]
        made = [one for one in leaves(result) if isinstance(one, torch.Tensor)]
        devices = {one.device.type for one in (*given, *made) if one.dim() or one.is_cuda}
        if "cuda" not in devices:
            return
        dtype = str((given or made)[0].dtype).removeprefix("torch.")
        moved = _bytes(given) + _bytes(made or _written(func, args, leaves))
        if "cpu" in devices and name in ("copy_", "_to_copy"):
            on_host = [one for one in (*given, *made) if one.device.type == "cpu"]
            is_aside = torch.cuda.current_stream() != torch.cuda.default_stream()
            count("async_host_copy" if is_aside else "host_copy", dtype, 0, _bytes(on_host[:1]))
            return
        flops = 0
        if packet in flop_registry:
            flops = int(flop_registry[packet](*args, **kwargs, out_val=result))
        elif name.startswith("_cudnn_rnn"):
            flops = _flops_of_rnn(name, *args[:2])
        kind = _kind(name, flops)
        if kind == "memory":
            kind = _kind_of_memory(func, name, (*given, *made), torch)
        elif kind == "convolution" and _groups(name, args) > 1:
            kind = "grouped_convolution"
        elif kind == "matmul" and _is_uneven((*given, *made)):
            kind = "uneven_matmul"
        if dtype == "float32" and _uses_tf32(torch, kind):
            dtype = "tf32"
        count(kind, dtype, flops, moved)

    return Counting


def _kind(name: str, flops: int) -> OperatorKind:
    if not flops:
        return "memory"
    if "attention" in name:
        return "attention"
    return "convolution" if "conv" in name else "matmul"


def _kind_of_memory(func: Any, name: str, tensors: tuple[Any, ...], torch: Any) -> OperatorKind:
    """What an operator without counted operations does."""
    if "norm" in name and not name.startswith("_foreach"):
        return "normalization"
    if name in _COPIES:
        # A copy to another layout reads or writes elements that are far apart.
        layouts = {one.stride() for one in tensors if one.dim()}
        return "elementwise" if len(layouts) <= 1 else "memory"
    is_pointwise = torch.Tag.pointwise in func.tags or name.startswith(_POINTWISE)
    return "elementwise" if is_pointwise else "memory"


_COPIES = ("copy_", "_to_copy", "clone")
#: Operators that torch does not tag as pointwise, and that are.
_POINTWISE = ("_foreach", "_fused", "native_dropout", "zero", "ones", "fill", "full")


def _groups(name: str, args: Any) -> int:
    """The groups of a convolution: the last argument, or that before the mask of a backward one."""
    return int(args[9] if "backward" in name else args[8])


def _is_uneven(tensors: Iterable[Any]) -> bool:
    """Whether matrices of 16 bits have rows that do not begin at a multiple of 16 bytes."""
    matrices = [one for one in tensors if one.dim() > 1 and one.element_size() == 2]
    return any(min(one.shape[-2:]) > 1 and max(one.stride()[-2:]) % 8 for one in matrices)


def _flops_of_rnn(name: str, given: Any, weights: Any) -> int:
    """The operations of a recurrent network: each weight is used for each element of a sequence."""
    elements = given.numel() // given.shape[-1]
    passes = 2 if "backward" in name else 1
    return int(2 * passes * elements * sum(one.numel() for one in weights if one.dim() > 1))


def _written(func: Any, args: Any, leaves: Callable[[Any], list[Any]]) -> list[Any]:
    """The tensors that an operator without a result writes to."""
    schema = torch_private.schema_of(func)
    arguments = [] if schema is None else schema.arguments
    written = [
        value
        for argument, value in zip(arguments, args, strict=False)
        if argument.alias_info is not None and argument.alias_info.is_write
    ]
    return [one for one in leaves(written) if hasattr(one, "element_size")]


def _uses_tf32(torch: Any, kind: str) -> bool:
    """Whether products of this kind are computed in TF32, as the program has set it."""
    backends = {
        "convolution": torch.backends.cudnn,
        "grouped_convolution": torch.backends.cudnn,
        "matmul": torch.backends.cuda.matmul,
    }
    return kind in backends and bool(backends[kind].allow_tf32)


def _is_view(func: Any) -> bool:
    """Whether a result is a view of an argument: no kernel runs."""
    schema = torch_private.schema_of(func)
    returns = [] if schema is None else schema.returns
    aliases = [one.alias_info for one in returns]
    return bool(aliases) and all(one is not None and not one.is_write for one in aliases)


def _bytes(tensors: Iterable[Any]) -> int:
    return sum(one.numel() * one.element_size() for one in tensors)
