"""`MemoryDispatchMode` of `floodmark_compat.memory_profiler`: devices, modules and live tensors.

It is a mode of torch's that changes no operator: the engine of the estimate sees them all. What is
asked for is read from it and from the recording. Sees: the modules that were given to it. Talks to:
its tracer.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Protocol

from floodmark import torch_private
from floodmark_compat import _profiler_tables as tables

if TYPE_CHECKING:
    from floodmark.reports.trace import Trace

#: A row of what was allocated outside of all modules.
_NO_MODULE = "(no module)"


class Tracer(Protocol):
    """What the mode reads of its `MemoryTracer`."""

    _device: str

    @property
    def trace(self) -> Trace: ...
    def _levels(self) -> dict[str, tuple[int, int]]: ...
    def _fakes(self, objects: list[Any]) -> Iterator[Any]: ...
    def _address_of(self, tensor: Any) -> int: ...
    def _now(self) -> int: ...


class MemoryDispatchMode(torch_private.dispatch_mode_class()):  # type: ignore[misc]
    """What a tracer knows of devices, modules and tensors.

    As with the original it is a `TorchDispatchMode`. The tracer does not enter it: it has nothing
    to do for an operator.
    """

    def __init__(self, tracer: Tracer) -> None:
        super().__init__()
        self._tracer = tracer
        self._entered = threading.local()
        self._handles: list[Any] = []
        self._forwards: dict[str, tables.Forward] = {}
        # The roots that have hooks, with the number of those of the same class before them.
        self._roots: list[tuple[Any, str]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))

    def register_hooks_to_module(self, module: Any) -> list[Any]:
        """Note what each forward pass of a module, and of those in it, keeps. Returns handles.

        The first model has its own names. The modules of another model whose names are taken are
        named after it: `Encoder#2.layer`.
        """
        root = self._name_of_root(module)
        handles = []
        for name, each in module.named_modules():
            full = ".".join(part for part in (root, name) if part) or type(module).__name__
            before, after = self._around(full)
            handles.append(each.register_forward_pre_hook(before))
            handles.append(each.register_forward_hook(after, always_call=True))
        self._handles.extend(handles)
        return handles

    def _name_of_root(self, module: Any) -> str:
        """What the names of its modules begin with; nothing for those that no other root has."""
        for root, name in self._roots:
            if root is module:
                return name
        own = {name for name, _ in module.named_modules() if name}
        others = {name for root, _ in self._roots for name, _ in root.named_modules()}
        kind = type(module).__name__
        same = sum(type(root) is type(module) for root, _ in self._roots)
        name = f"{kind}#{same + 1}" if own & others or same else ""
        self._roots.append((module, name))
        return name

    def remove_hooks(self, handles: Iterable[Any]) -> None:
        """Take hooks off. The end of the block takes off those that are left."""
        for handle in list(handles):
            handle.remove()

    @property
    def current_memory_per_device(self) -> dict[str, int]:
        """Bytes that are allocated, by device."""
        return {device: now for device, (now, _) in self._tracer._levels().items()}

    @property
    def peak_memory_per_device(self) -> dict[str, int]:
        """The most bytes that were allocated, by device."""
        return {device: peak for device, (_, peak) in self._tracer._levels().items()}

    @property
    def module_memory_usage(self) -> dict[str, int]:
        """Bytes at the peak by module, those of the modules in it included."""
        rows = self._tracer.trace.report(by="module", device=self._tracer._device, top=None)
        return {row["location"]: row["bytes"] for row in rows if row["location"] != _NO_MODULE}

    @property
    def module_stack(self) -> list[str]:
        """The modules with hooks that run on this thread now, the outermost first."""
        return [name for name, _ in self._stack()]

    @property
    def live_tensors(self) -> Any:
        """The tensors of the block that are live now, each with the bytes of its storage.

        Also after the block. A dictionary with weak keys. Tensors that share a storage each have
        all of its bytes.
        """
        from torch.utils.weak import WeakIdKeyDictionary

        found = WeakIdKeyDictionary()
        for tensor in self._tracer._fakes(gc.get_objects()):
            found[tensor] = int(tensor.untyped_storage().nbytes())
        return found

    @property
    def tensor_to_module(self) -> Any:
        """The live tensors that belong to a module, each with its name; keys are weak.

        The module is the one that allocated the storage, in the forward or in the backward pass,
        or the one inside the model that has the parameter.
        """
        from torch.utils.weak import WeakIdKeyDictionary

        lives = self._tracer.trace.lifetimes()
        modules = {
            life["address"]: life["module"] for life in lives if life["freed_seconds"] is None
        }
        found = WeakIdKeyDictionary()
        for tensor in self._tracer._fakes(gc.get_objects()):
            name = modules.get(self._tracer._address_of(tensor))
            if name is not None:
                found[tensor] = name
        return found

    def _around(self, name: str) -> tuple[Callable[..., None], Callable[..., None]]:
        def before(*_: object) -> None:
            self._stack().append((name, self._tracer._now()))

        def after(*_: object) -> None:
            stack = self._stack()
            if stack:
                noted = self._forwards.setdefault(name, tables.Forward())
                noted.calls += 1
                noted.kept = max(noted.kept, self._tracer._now() - stack.pop()[1])

        return before, after

    def _stack(self) -> list[tuple[str, int]]:
        stack: list[tuple[str, int]] | None = getattr(self._entered, "stack", None)
        if stack is None:
            stack = self._entered.stack = []
        return stack

    def _begin(self) -> None:
        self._forwards.clear()
        self._roots.clear()

    def _end(self) -> None:
        self.remove_hooks(self._handles)
        self._handles.clear()
        # Names stay, models do not.
        self._roots.clear()
