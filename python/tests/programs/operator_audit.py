"""Calls torch's operators on a simulated GPU, with a guard page behind each copy on the host.

`python operator_audit.py EVERY FIRST SAMPLES`: every EVERY-th operator of torch's operator database
from FIRST on, with that many samples each, in five shapes: as they are, expanded, overlapping,
empty and without values. A kernel that leaves its memory ends the process; the last line on stdout
names the operator. Errors that torch raises are no concern of this program.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import mmap
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import floodmark

with floodmark.phantom("h200"):
    import torch

from torch.testing._internal.common_methods_invocations import op_db

from floodmark.estimate.phantom import simulated_gpu

PAGE = mmap.PAGESIZE
PROTECT = ctypes.CDLL(None, use_errno=True).mprotect
PROTECT.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
copies = 0


def guarded(shape: Any, dtype: Any) -> Any:
    """Memory that ends where a page begins that no one may touch."""
    global copies
    copies += 1
    count = 1
    for size in shape:
        count *= size
    length = count * dtype.itemsize
    if not length:
        return torch.empty(shape, dtype=dtype, device="cpu")
    room = -(-length // PAGE) * PAGE
    memory = mmap.mmap(-1, room + PAGE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    assert PROTECT(address + room, PAGE, 0) == 0, ctypes.get_errno()
    flat = torch.frombuffer(memory, dtype=dtype, count=count, offset=room - length)
    return flat.view(shape)


def plain(tensor: Any) -> Any:
    return tensor.cuda()


def expanded(tensor: Any) -> Any:
    return tensor.reshape(-1)[:1].cuda().expand(tensor.shape) if tensor.numel() else tensor.cuda()


def overlapping(tensor: Any) -> Any:
    if tensor.numel() < 2:
        return tensor.cuda()
    length = sum(size - 1 for size in tensor.shape) + 1
    flat = tensor.reshape(-1)[:length].cuda()
    return flat.as_strided(tensor.shape, (1,) * tensor.dim())


def empty(tensor: Any) -> Any:
    return tensor[:0].cuda() if tensor.dim() else tensor.cuda()


def unknown(tensor: Any) -> Any:
    return torch.empty(tensor.shape, dtype=tensor.dtype, device="cuda")


SHAPES = (plain, expanded, overlapping, empty, unknown)


def moved(value: Any, shape: Callable[[Any], Any]) -> Any:
    """A sample's value with the tensors in it moved to the simulated GPU."""
    if isinstance(value, torch.Tensor):
        return shape(value.detach()) if value.layout == torch.strided else value
    if isinstance(value, list | tuple):
        return type(value)(moved(item, shape) for item in value)
    if isinstance(value, dict):
        return {key: moved(item, shape) for key, item in value.items()}
    return "cuda" if value == "cpu" or value == torch.device("cpu") else value


def kinds_of(operator: Any) -> list[Any]:
    wanted = (torch.float32, torch.int64, torch.bool)
    return [kind for kind in wanted if kind in operator.dtypes][:2] or list(operator.dtypes)[:1]


def samples_of(operator: Any, most: int) -> Iterator[Any]:
    for kind in kinds_of(operator):
        with contextlib.suppress(Exception):
            for count, sample in enumerate(operator.sample_inputs("cpu", kind)):
                if count == most:
                    break
                yield sample


def calls_of(operator: Any, sample: Any, shape: Callable[[Any], Any]) -> Iterator[Any]:
    """The operator as a function, in place, and with `out=`."""

    def arguments() -> tuple[Any, Any, Any]:
        parts = (sample.input, sample.args, sample.kwargs)
        return tuple(moved(part, shape) for part in parts)  # type: ignore[return-value]

    first, args, kwargs = arguments()
    yield lambda: operator(first, *args, **kwargs)
    in_place = operator.inplace_variant
    if in_place is not None:
        again, others, named = arguments()
        yield lambda: in_place(again, *others, **named)
    if operator.supports_out:
        result = operator(first, *args, **kwargs)
        if isinstance(result, torch.Tensor):
            yield lambda: operator(first, *args, out=torch.empty_like(result), **kwargs)


def main() -> None:
    every, first, most = map(int, sys.argv[1:4])
    values = simulated_gpu.current().phantom.values  # type: ignore[union-attr]
    values.store.empty_on_host = guarded
    calls = done = 0
    warnings.simplefilter("ignore")
    chosen = [operator for operator in op_db[first::every] if "jiterator" not in operator.name]
    for operator in chosen:
        print(operator.name, operator.variant_test_name, flush=True)
        for sample in samples_of(operator, most):
            for shape in SHAPES:
                with contextlib.suppress(Exception):
                    for call in calls_of(operator, sample, shape):
                        calls += 1
                        with contextlib.suppress(Exception):
                            call()
                            done += 1
    found = {"operators": len(chosen), "calls": calls, "done": done, "copies": copies}
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
