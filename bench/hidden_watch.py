"""What an operator takes inside: every allocation of a call, with the results told apart.

Sees: the calls that reach torch's dispatcher below autograd, and the history of torch's own caching
allocator. Made for a phantom GPU, where a call takes no time. Knows nothing of floodmark's rules.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

#: The allocator hands out multiples of this.
BLOCK = 512
SHORT = {
    torch.bool: "b1",
    torch.uint8: "u8",
    torch.int8: "i8",
    torch.int16: "i16",
    torch.int32: "i32",
    torch.int64: "i64",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.float32: "f32",
    torch.float64: "f64",
}


def rounded(size: int) -> int:
    """The bytes of the block that is handed out for a request."""
    return -(-size // BLOCK) * BLOCK


def name_of(func: Any) -> str:
    """`aten::mm`, `aten::add.Tensor`."""
    name, overload = func._schema.name, func._schema.overload_name
    return f"{name}.{overload}" if overload else str(name)


def tensor_as_json(tensor: torch.Tensor) -> list[Any]:
    """Type, sizes, strides and the kind of device."""
    dtype = SHORT.get(tensor.dtype, str(tensor.element_size()))
    strides = list(tensor.stride()) if tensor.layout == torch.strided else []
    return [dtype, list(tensor.shape), strides, tensor.device.type]


def as_json(value: Any) -> Any:
    """A value of a call, as a rule gets it."""
    if isinstance(value, torch.Tensor):
        return {"tensor": tensor_as_json(value)}
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, (list, tuple)):
        some = [item for item in value if item is not None]
        if any(isinstance(item, torch.Tensor) for item in some):
            return {"tensors": [tensor_as_json(item) for item in some]}
        if all(isinstance(item, (bool, int)) for item in some):
            return list(some)
    return "other"


def arguments(func: Any, args: Any, kwargs: Any) -> list[Any]:
    """The arguments in the order of the schema; `None` for one that was not given."""
    names = [argument.name for argument in func._schema.arguments]
    given = dict(zip(names, args, strict=False)) | dict(kwargs)
    return [as_json(given.get(name)) for name in names]


def history() -> list[dict[str, Any]]:
    """What the allocator did since `forget`."""
    traces = torch.cuda.memory._snapshot()["device_traces"]
    return [event for event in traces[0] if event["action"] in ("alloc", "free_requested")]


def forget() -> None:
    """Begin a new history."""
    torch.cuda.memory._record_memory_history(
        "all", context=None, max_entries=1_000_000, clear_history=True
    )


class Watch(TorchDispatchMode):
    """Notes every call inside the block."""

    def __init__(self, case: str, *, with_fake: bool = True) -> None:
        super().__init__()
        self.case = case
        self.calls: list[dict[str, Any]] = []
        self._with_fake = with_fake

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        given = arguments(func, args, kwargs)
        fake = fake_results(func, args, kwargs) if self._with_fake else None
        forget()
        result = func(*args, **kwargs)
        events = history()
        call = {
            "case": self.case,
            "op": name_of(func),
            "backward": torch._C._current_autograd_node() is not None,
            "args": given,
            "results": results_as_json(result if fake is None else fake),
        }
        call |= told_apart(events, result)
        real = storages(result)
        shown = real if fake is None else storages(fake)
        call["plain"] = plain_bytes(int(call["made"]), shown, real)
        if shown != real:
            call["fake"] = [shown, real]
        self.calls.append(call)
        return result


def results_as_json(result: Any) -> list[Any]:
    """A list, also of one result."""
    if isinstance(result, tuple):
        return [as_json(item) for item in result]
    return [as_json(result)]


def told_apart(events: list[dict[str, Any]], result: Any) -> dict[str, Any]:
    """The events with results named, the peak of the call, and what is left of it."""
    own = {
        leaf.untyped_storage().data_ptr()
        for leaf in tree_leaves(result)
        if isinstance(leaf, torch.Tensor) and leaf.layout == torch.strided
    }
    live: dict[int, int] = {}
    at: dict[int, int] = {}
    script: list[Any] = []
    now = peak = 0
    for event in events:
        address, size = event["addr"], event["size"]
        if event["action"] == "alloc":
            live[address] = rounded(size)
            at[address] = len(script)
            script.append(["+", size])
            now += live[address]
        else:
            known = live.pop(address, None)
            now -= rounded(size) if known is None else known
            script.append(["-", size if known is not None else -size])
            at.pop(address, None)
        peak = max(peak, now)
    kept = []
    result_bytes = 0
    for address, place in at.items():
        script[place][0] = "r" if address in own else "k"
        if address in own:
            result_bytes += live[address]
        else:
            kept.append(live[address])
    return {"events": script, "peak": peak, "made": result_bytes, "kept": kept}


def storages(result: Any) -> list[Any]:
    """Type, sizes, strides and the bytes of the storage of every tensor; a storage counts once."""
    rows: list[Any] = []
    seen: set[int] = set()
    for leaf in tree_leaves(result):
        if isinstance(leaf, torch.Tensor) and leaf.layout == torch.strided:
            storage = leaf.untyped_storage()
            size = 0 if storage._cdata in seen else storage.nbytes()
            seen.add(storage._cdata)
            rows.append([*tensor_as_json(leaf)[:3], size])
    return rows


def plain_bytes(made: int, fake: list[Any], real: list[Any]) -> int:
    """What the results would take if their storages were those of fake tensors."""
    if made == 0:
        return made
    sizes = [sum(rounded(row[3]) for row in rows) for rows in (fake, real)]
    return max(made + sizes[0] - sizes[1], 0)


def fake_results(func: Any, args: Any, kwargs: Any) -> Any:
    """What fake tensors would give for the same call; `None` where they cannot say."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    mode = FakeTensorMode(allow_non_fake_inputs=True)
    try:
        fake_args, fake_kwargs = tree_map_only(
            torch.Tensor, lambda tensor: mode.from_tensor(tensor), (args, kwargs)
        )
        with mode:
            return func(*fake_args, **fake_kwargs)
    except Exception:
        return None
