"""Runs a program with fake tensors, shapes without data, on a simulated GPU.

torch's own `FakeTensorMode` computes shapes. `_core.Operators` above it inspects the results of
every operator and reports them to the recorder. Sees: torch. Talks to: `_core`, which counts bytes.
"""

from __future__ import annotations

import contextlib
import os
import threading
import types
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from types import TracebackType
from typing import Any

from floodmark import _core, torch_private, torch_private_fakes
from floodmark.estimate.fake.kernel_workspaces import Kernels

_Kind = _core.OperatorKind

#: Their schema returns an alias of the argument, a real tensor; the fake result is new.
_LIFTING = frozenset({"lift", "lift_fresh", "lift_fresh_copy"})

#: Operators other than those with `out` that may resize an argument's storage.
_RESIZING = frozenset({"resize_", "resize_as_", "set_", "resize_storage_bytes_", "_resize_output_"})


class Front:
    """Describes operators for `_core.Operators`."""

    def __init__(
        self,
        torch: Any,
        answers: dict[Any, Callable[..., Any]],
        follow: Callable[..., None],
        kernels: Kernels | None,
    ) -> None:
        self._torch = torch
        self.answers = answers
        #: Called after an operator whose results may have known values.
        self.follow = follow
        self._kernels = kernels
        #: Our mode above torch's own; None before it is entered.
        self.mode: Any = None
        self._fake_tensor = torch_private_fakes.fake_tensor_class()
        self._where = torch.ops.prim.device.default

    def describe(
        self, func: Any
    ) -> tuple[str, _core.OperatorKind, bool, list[str], Callable[..., Any] | None]:
        """An operator's name, its kind, whether it only writes, the names of its arguments, and the
        function that replaces it."""
        schema = torch_private.schema_of(func)
        if schema is None:
            return str(func), _Kind.PLAIN, False, [], self.answers.get(func)
        name = schema.name + (f".{schema.overload_name}" if schema.overload_name else "")
        kind = _Kind.PLAIN
        operator = schema.name.partition("::")[2]
        if func is self._where:
            kind = _Kind.DEVICE
        elif operator in _RESIZING or any(argument.is_out for argument in schema.arguments):
            kind = _Kind.RESIZE
        elif operator not in _LIFTING and _is_view(schema):
            kind = _Kind.VIEW
        names = [argument.name for argument in schema.arguments]
        is_mute = schema.is_mutable and not schema.returns
        answer = self.answers.get(func)
        if answer is None and kind != _Kind.DEVICE and self._is_composite(func):
            answer = self._decompose
        return name, kind, is_mute, names, answer

    def _is_composite(self, func: Any) -> bool:
        """Whether an operator calls other operators; inference mode does not split those up.

        An operator that also has a kernel for a device (`silu_backward`) does not count.
        """
        has_kernel = torch_private.kernel_test(self._torch)
        name = func.name()
        try:
            is_made = has_kernel(name, "CompositeImplicitAutograd")
            return is_made and not any(has_kernel(name, key) for key in ("CPU", "CUDA"))
        except RuntimeError:
            # The dispatcher does not know operators of the interpreter.
            return False

    def _decompose(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run the operators that it calls, each through our mode."""
        with self.mode:
            result = func.decompose(*args, **kwargs or {})
        return func(*args, **kwargs or {}) if result is NotImplemented else result

    def is_measured(self, func: Any) -> bool:
        """Whether `own_bytes` measures the workspace of this operator."""
        return self._kernels is not None and self._kernels.is_measured(func)

    def own_bytes(self, func: Any, args: Any, kwargs: Any) -> int | None:
        """The bytes of a call's workspace; None if the rules apply."""
        return None if self._kernels is None else self._kernels.bytes_of(func, args, kwargs)

    def is_foreign(self, kind: type) -> bool:
        """Whether tensors of this class wrap other tensors, which are handled one by one."""
        if issubclass(kind, self._fake_tensor):
            return False
        return hasattr(kind, "__tensor_flatten__")

    def out_of_memory(self, message: str) -> BaseException:
        """torch's `OutOfMemoryError` with this message."""
        kind = getattr(self._torch, "OutOfMemoryError", None)
        error: BaseException = (kind or self._torch.cuda.OutOfMemoryError)(message)
        return error


def _is_view(schema: Any) -> bool:
    """Whether an operator only returns views of its arguments and does not write them."""
    returns = schema.returns
    if not returns:
        return False
    alias = [value.alias_info for value in returns]
    return all(info is not None and not info.is_write for info in alias)


def _fakes(mode: type) -> Any:
    """A subclass of torch's mode that several threads may use at once."""
    here = threading.local()

    class Fakes(mode):  # type: ignore[misc]
        @property
        def in_kernel_invocation(self) -> bool:
            return getattr(here, "is_inside", False)

        @in_kernel_invocation.setter
        def in_kernel_invocation(self, is_inside: bool) -> None:
            here.is_inside = is_inside

    return Fakes


class Engine:
    """The fake tensor mode of a block, from `__enter__` to `__exit__`."""

    def __init__(
        self,
        torch: Any,
        *,
        capability: tuple[int, int],
        multiprocessors: int,
        capacity: int | None,
        answers: dict[Any, Callable[..., Any]],
        follow: Callable[..., None],
        kernels: Kernels | None,
        config: str,
    ) -> None:
        self._torch = torch
        self._stack = ExitStack()
        self._watch: Any = None
        # The block may use real tensors from before it.
        self.fake = _fakes(torch_private_fakes.fake_mode_class())(allow_non_fake_inputs=True)
        dtypes = {v: k for k, v in vars(torch).items() if isinstance(v, torch.dtype)}
        self._front = Front(torch, answers, follow, kernels)
        self.operators = _core.Operators(
            self._front,
            torch_private_fakes.fake_tensor_class(),
            weakref.ref,
            [(dtype, str(dtype).removeprefix("torch."), dtype.itemsize) for dtype in dtypes],
            torch=torch_private.version(torch),
            capability=capability[0] * 10 + capability[1],
            multiprocessors=multiprocessors,
            capacity=capacity,
            config=config,
            cublas=os.environ.get("CUBLAS_WORKSPACE_CONFIG"),
        )

    def __enter__(self) -> Engine:
        class Watch(torch_private.dispatch_mode_class()):  # type: ignore[misc]
            """A mode that sees every operator of the block, also higher-order ones."""

            supports_higher_order_operators = True

            @classmethod
            def _should_skip_dynamo(cls) -> bool:
                return False

        mode = Watch()
        # A native method: it adds no frame to the program's stack.
        mode.__torch_dispatch__ = types.MethodType(self.operators, mode)
        self._front.mode = mode
        self._watch = mode
        before = _core.set_address_finder(self.operators.address)
        self._stack.callback(_core.set_address_finder, before)
        self._stack.enter_context(self.modes())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.close()

    @contextlib.contextmanager
    def modes(self) -> Iterator[None]:
        """Enter both modes in this thread."""
        with self.fake, self._watch:
            yield

    def is_on(self) -> bool:
        """Whether this thread is inside the modes."""
        return self._watch in torch_private.dispatch_modes()

    def close(self) -> None:
        """Stop reporting: later frees are ignored."""
        self.operators.close()

    def libraries(self, device: Any) -> list[tuple[str, int]]:
        """What CUDA's libraries hold outside torch on a device."""
        return self.operators.libraries(self._torch.device(device))

    def level(self, device: Any) -> tuple[int, int, int, int]:
        """Allocated and reserved bytes of a device, each with its peak."""
        return self.operators.level(self._torch.device(device))
