"""What modules and tensors are called.

Modules: the probe sees the address of every module whose `forward` runs; here it gets the qualified
name below the outermost module around it. Tensors: parameters and buffers of named modules,
gradients and optimizer states of every optimizer that steps, by the address of their storage.

Sees: `nn.Module` objects and optimizers, only their dictionaries, so that no line of the user's
runs. Talks to: `_core`. Holds weak references only.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from floodmark import _core, torch_private

_modules: dict[int, weakref.ref[Any]] = {}
_names: dict[int, tuple[weakref.ref[Any], str]] = {}
_count = 0


def _data_ptr(tensor: Any) -> int:
    address: int = tensor.data_ptr()
    return address


#: Where a tensor's data begin.
address_of: Callable[[Any], int] = _data_ptr


@contextmanager
def addresses(find: Callable[[Any], int]) -> Iterator[None]:
    """Until the end, `find` says where tensors lie: they have no data."""
    global address_of
    before, address_of = address_of, find
    try:
        yield
    finally:
        address_of = before


def forget_all() -> None:
    """A recording ended: its names are no longer needed."""
    _modules.clear()
    _names.clear()


def name_seen_modules() -> None:
    """Name what the probe has seen without a name: on the main thread, or while that waits."""
    roots = {root for root, _ in _core.pin_running_code()}
    for address in roots:
        # The address was read from a running frame an instant ago, under the same hold of the GIL.
        root = ctypes.cast(address, ctypes.py_object).value
        name_modules(root)


def _inside(prefix: str, module: object) -> list[tuple[str, object]]:
    """The submodules of a module with their qualified names; wrappers add nothing to a name."""
    wrapped = torch_private.WRAPPED_MODULES.get(type(module).__name__)
    found = []
    for name, child in torch_private.children(module).items():
        if child is not None:
            inner = prefix if name == wrapped else f"{prefix}.{name}" if prefix else name
            found.append((inner, child))
    return found


def name_modules(root: object) -> None:
    """Give `root` and all modules inside it their names, and label their tensors."""
    named: list[tuple[int, str, str]] = []
    labels: list[tuple[str, int, int, int]] = []
    labelled: set[int] = set()
    visited: set[tuple[int, str]] = set()
    waiting: list[tuple[str, object]] = [("", root)]
    while waiting:
        prefix, module = waiting.pop()
        if (id(module), prefix) in visited or len(visited) > 1_000_000:
            continue
        visited.add((id(module), prefix))
        named.append((id(module), prefix, type(module).__name__))
        _watch(module)
        # In torch's own order, so that a shared tensor gets the name that torch gives it.
        waiting.extend(reversed(_inside(prefix, module)))
        for category, tensors in (
            ("parameter", torch_private.parameters(module)),
            ("buffer", torch_private.buffers(module)),
        ):
            for name, tensor in tensors.items():
                if tensor is not None and id(tensor) not in labelled:
                    labelled.add(id(tensor))
                    qualified = f"{prefix}.{name}" if prefix else name
                    if category == "parameter":
                        _remember(tensor, qualified)
                    labels.extend(label_of(tensor, category, qualified))
    _core.name_modules(id(root), named)
    _core.label(labels)


def _watch(module: object) -> None:
    address = id(module)
    if address in _modules:
        return

    def died(_: object) -> None:
        _modules.pop(address, None)
        _core.forget_module(address)

    _modules[address] = weakref.ref(module, died)


def _remember(tensor: Any, name: str) -> None:
    global _count
    known = _names.get(id(tensor))
    is_new = known is None or known[0]() is not tensor
    # A model may run its submodules before it is called itself: its names say more.
    if known is None or is_new or name.endswith(f".{known[1]}"):
        _names[id(tensor)] = (weakref.ref(tensor), name)
        _count += is_new


def parameters() -> list[Any]:
    """The parameters of named modules."""
    found = [reference() for reference, _ in list(_names.values())]
    return [parameter for parameter in found if parameter is not None]


def count() -> int:
    """How many parameters have got a name; it grows when one gets a name."""
    return _count


def name_of(tensor: Any) -> str | None:
    """The qualified name of a parameter, where a named module has it."""
    known = _names.get(id(tensor))
    return known[1] if known is not None and known[0]() is tensor else None


def label_of(tensor: Any, category: str, name: str) -> list[tuple[str, int, int, int]]:
    """What to tell the probe of a tensor: nothing when it has no storage of its own here."""
    try:
        local = torch_private.local_part(tensor)
        if address_of is _data_ptr and torch_private.is_fake(local):
            return []  # Without this torch warns the user of a read that is ours.
        address = address_of(local)
        device = local.device
        if address == 0 or device.type not in ("cpu", "cuda"):
            return []
        shape = str(tuple(local.shape))
        dtype = str(local.dtype).removeprefix("torch.")
        label = _core.define_label(category, name, shape, dtype)
        return [(device.type, device.index or 0, address, label)]
    except Exception:
        # Fake, meta and exotic tensors have no address; a tensor without a label is not an error.
        return []
