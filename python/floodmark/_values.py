"""Values on a phantom GPU: integers and truth values are worked out on the host.

Kernels do not run, but programs read some of their results back and branch on them: lengths,
masks, positions. So a function whose arguments have values is run a second time, on the host, on
memory that lies where the device's address says; its result is stored there too. Floating-point
numbers are not followed, save for a few; they read as zero. Every value that a program reads and
that rests on such a zero, on random numbers or on nothing is listed with its line.

Sees: calls of torch, through `_core.Functions`. Talks to: the phantom's library, which keeps which
bytes have a value. Must never raise into the program.
"""

from __future__ import annotations

import contextlib
import ctypes
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from floodmark import _value_names as names
from floodmark._answers import given_at
from floodmark._phantom import Phantom

#: How sure a value is; the phantom's library has the same numbers.
NOTHING, ASSUMED, KNOWN = 0, 1, 2

_THROUGH, _LOOK, _WRITE, _READ = 0, 1, 2, 3
#: Beyond so many elements nothing is worked out.
_MOST_INTEGERS = 1 << 24
_MOST_UNKNOWN_FLOATS = 1 << 18
_MOST_KNOWN_FLOATS = 1 << 12


#: What a function gave that cannot be run on the host.
_FAILED = object()


class Values:
    """What is known of the values on the devices of this process."""

    def __init__(self, phantom: Phantom, torch: ModuleType, answers: dict[tuple[str, int], float]):
        library = phantom.library
        self.torch = self._torch = torch
        self._surety = library.floodmark_phantom_surety
        self._set = library.floodmark_phantom_set
        self._answer = library.floodmark_phantom_answer
        self._answers = answers
        self._reads: dict[tuple[str, int, str], dict[str, Any]] = {}
        self._masks = (torch.bool, torch.uint8)
        # Always the same, so that two estimates of one program are.
        self._generator_state = torch.Generator().manual_seed(0).get_state()
        self._skipped = (str(Path(str(torch.__file__)).parent), str(Path(__file__).parent))

    def reads(self) -> list[dict[str, Any]]:
        """Every value that was read and is not known: where, how often, and what was answered."""
        return sorted(self._reads.values(), key=lambda read: (-read["count"], read["file"]))

    # What `_core.Functions` calls.

    def classify(self, func: Any) -> int:
        """What is to be done about a function of torch."""
        name = getattr(func, "__name__", "")
        if name in names.NUMBERS or name in names.COUNTS or name in names.CHECKED:
            return _READ
        if name in names.LOOKS or (
            name.startswith(("is_", "has_", "_is_", "get_", "register_", "_dim"))
            and name not in ("_is_all_true", "_is_any_true")
        ):
            return _THROUGH
        return _WRITE if _writes(name) else _LOOK

    def is_kept(self, tensor: Any) -> bool:
        """Whether all of a tensor has a value."""
        try:
            return bool(self._surety(*_region(tensor)))
        except RuntimeError:
            # A tensor of a transform (vmap, grad) has no address.
            return False

    def before(self, func: Any, args: Any, kwargs: Any) -> tuple[Any] | None:
        """Note a read. A result in a tuple goes to the program in place of what it would read."""
        try:
            return self._before(func, args, kwargs or {})
        except Exception:
            return None

    def end_of_read(self) -> None:
        """The function that read is over."""
        self._answer(0, 0)

    def after(self, func: Any, args: Any, kwargs: Any, out: Any) -> Any:
        """Give what a function wrote its value, or none."""
        try:
            return self._after(func, args, kwargs or {}, out)
        except Exception:
            with contextlib.suppress(Exception):
                self._forget_all(_written(func, args, kwargs or {}))
            return out

    # How it is done.

    def _before(self, func: Any, args: Any, kwargs: Any) -> tuple[Any] | None:
        name = func.__name__
        if name in names.CHECKED:
            self._answer(2, names.CHECKED[name])
            return None
        source = args[0]
        if name in names.NUMBERS:
            if name in ("equal", "allclose", "__contains__"):
                return None
            surety = int(self._surety(*_region(source)))
            if name == "__bool__" and surety < KNOWN and _is_validation():
                return (True,)
            return self._read(name, source, surety)
        if name in ("__getitem__", "__setitem__", "index_put", "index_put_"):
            masks = [i for i in _tensors(args[1]) if i.dtype in self._masks and i.is_cuda]
            if not masks:
                return None
            work, operands, options = self._torch.nonzero, (masks[0],), {}
        elif name == "where" and len(args) > 1:
            return None
        else:
            work, operands, options = func, args, kwargs
        surety, host = self._on_host(work, operands, options)
        count = _count_in(name, host)
        if surety < KNOWN:
            given = self._read(name, operands[0], surety, f"{count} rows")
            count = int(given[0]) if given is not None else count
        self._answer(1, count)
        return None

    def _after(self, func: Any, args: Any, kwargs: Any, out: Any) -> Any:
        name = func.__name__
        written = _written(func, args, kwargs)
        made = [
            t for t in _tensors(out) if not any(_shares(t, u) for u in _tensors((args, kwargs)))
        ]
        if name in names.COPIES and not self._must_convert(name, args, written, made):
            return out
        if any(not self._is_wanted(t, args) for t in written):
            # Much is written to, and none of it on the host: lists of parameters, mostly.
            self._forget_all(written)
            return out
        is_number = name in names.NUMBERS
        if not is_number and not any(self._is_wanted(t, args) for t in (*written, *made)):
            self._forget_all(written)
            return out
        surety, host = self._on_host(func, args, kwargs, targets=written)
        self._note_copies_off(name, made + written, args, surety)
        if host is _FAILED:
            self._forget_all(written)
            return out
        if is_number:
            if surety < KNOWN and name in ("equal", "allclose", "__contains__"):
                self._read(name, args[0], surety, str(host))
            return host
        for device, value in zip(_tensors(out), _tensors(host), strict=False):
            if any(device is one for one in made):
                self._store(device, value, surety)
        for target in written:
            self._settle(target, surety)
        return out

    def _must_convert(self, name: str, args: Any, written: list[Any], made: list[Any]) -> bool:
        """Whether a copy changes its bytes. If not, the library has moved them."""
        targets = written or made
        if not targets:
            return False
        source, target = (args[1] if name == "copy_" else args[0]), targets[0]
        if not isinstance(source, self._torch.Tensor):
            return True
        is_plain = (
            source.is_contiguous() and target.is_contiguous() and source.dtype == target.dtype
        )
        if not is_plain or source.shape != target.shape:
            return True
        if source.is_cuda and not target.is_cuda:
            surety = int(self._surety(*_region(source)))
            if surety < KNOWN:
                self._read(name, source, surety, "zeros" if surety == NOTHING else "its value")
        return False

    def _is_wanted(self, tensor: Any, args: Any) -> bool:
        """Whether a value is worked out for a tensor that a function wrote."""
        if not tensor.is_cuda:
            return any(operand.is_cuda for operand in _tensors(args))
        if tensor.dtype.is_floating_point or tensor.dtype.is_complex:
            return bool(tensor.numel() <= _MOST_KNOWN_FLOATS)
        return bool(tensor.numel() <= _MOST_INTEGERS)

    def _note_copies_off(self, name: str, targets: list[Any], args: Any, surety: int) -> None:
        """A copy to the host is a read."""
        sources = [t for t in _tensors(args) if t.is_cuda]
        if surety < KNOWN and sources and any(not t.is_cuda for t in targets):
            self._read(name, sources[0], surety, "zeros" if surety == NOTHING else "its value")

    def forget(self, tensor: Any) -> None:
        """The tensor was written to by a kernel that did not run."""
        if tensor.is_cuda:
            self._set(*_region(tensor), NOTHING)

    def _forget_all(self, tensors: list[Any]) -> None:
        for tensor in tensors:
            self.forget(tensor)

    def _on_host(self, func: Any, args: Any, kwargs: Any, targets: Any = ()) -> tuple[int, Any]:
        """Run a function on the host: how sure its result is, and the result."""
        move = _Move(self, targets, func.__name__ in names.OVERWRITES)
        host_args = move.to_host(tuple(args))
        host_kwargs = {key: move.to_host(value) for key, value in kwargs.items()}
        if "pin_memory" in host_kwargs:
            host_kwargs["pin_memory"] = False
        if any(t.numel() > _MOST_INTEGERS for t in _tensors(host_args)):
            return NOTHING, _FAILED
        if move.surety < KNOWN and move.floats > _MOST_UNKNOWN_FLOATS:
            return NOTHING, _FAILED
        if func.__name__ == "cuda":
            func, host_args, host_kwargs = self._torch.Tensor.clone, host_args[:1], {}
        try:
            with self._torch.device("cpu"), self._torch.no_grad():
                if func.__name__ in names.RANDOM:
                    with self._own_random_numbers():
                        return ASSUMED, func(*host_args, **host_kwargs)
                return move.surety, func(*host_args, **host_kwargs)
        except Exception:
            # What torch says of it on the host is not the program's business.
            return NOTHING, _FAILED

    def host_of(self, tensor: Any, is_target: bool, is_overwritten: bool) -> tuple[Any, int]:
        """A tensor's values, on the host: where they lie, or zeros that take no memory."""
        torch = self._torch
        region = _region(tensor)
        surety = int(self._surety(*region))
        if is_target:
            if surety == NOTHING and not is_overwritten:
                ctypes.memset(region[0], 0, region[1])
            return self._alias(tensor, region), KNOWN if is_overwritten else max(surety, ASSUMED)
        if surety == NOTHING:
            zero = torch.zeros((), dtype=tensor.dtype)
            return zero.expand(tensor.shape), ASSUMED
        return self._alias(tensor, region), surety

    def _alias(self, tensor: Any, region: tuple[int, int]) -> Any:
        """A host tensor on the bytes of a device tensor."""
        if region[1] == 0:
            return self._torch.empty(tensor.shape, dtype=tensor.dtype)
        memory = (ctypes.c_char * region[1]).from_address(region[0])
        flat = self._torch.frombuffer(memory, dtype=tensor.dtype)
        return flat.as_strided(tensor.shape, tensor.stride())

    def _store(self, target: Any, value: Any, surety: int) -> None:
        """Put a value where a device tensor lies, or into a host tensor that was copied to."""
        if not target.is_cuda:
            if target.shape == value.shape and target.data_ptr() != value.data_ptr():
                target.copy_(value)
            return None
        is_float = target.dtype.is_floating_point or target.dtype.is_complex
        if is_float and surety < KNOWN:
            return self.forget(target)
        if target.shape != value.shape or target.numel() > _MOST_INTEGERS:
            return self.forget(target)
        region = _region(target)
        if region[1]:
            self._alias(target, region).copy_(value)
            self._set(*region, surety)
        return None

    def _settle(self, target: Any, surety: int) -> None:
        """A function wrote to a tensor where it lies: say how sure its bytes are now."""
        if not target.is_cuda:
            return
        region = _region(target)
        if target.dtype.is_floating_point and surety < KNOWN:
            self._set(*region, NOTHING)
        elif region[1] == target.numel() * target.element_size():
            self._set(*region, surety)
        else:
            # The tensor has gaps, which were not written to.
            before = int(self._surety(*region))
            self._set(*region, min(surety, before) if before else NOTHING)

    @contextlib.contextmanager
    def _own_random_numbers(self) -> Iterator[None]:
        """Random numbers of our own: the program's on the host stay what they would have been."""
        theirs = self._torch.get_rng_state()
        self._torch.set_rng_state(self._generator_state)
        try:
            yield
        finally:
            self._generator_state = self._torch.get_rng_state()
            self._torch.set_rng_state(theirs)

    # What the program was told.

    def _read(self, name: str, tensor: Any, surety: int, told: str = "") -> tuple[Any] | None:
        """Note a read of a value that is not known; an answer that the user gave, in a tuple."""
        frame: FrameType | None = sys._getframe(1)
        here = None
        given = None
        while frame is not None:
            file = frame.f_code.co_filename
            if not file.startswith(self._skipped) and not file.startswith("<"):
                here = here or frame
                given = given or given_at(self._answers, file, frame.f_lineno)
            frame = frame.f_back
        if surety == KNOWN and given is None:
            return None
        if given is not None:
            told = f"{given:g} (--answer)"
        elif not told:
            told = self._value_of(tensor, surety)
        file, line, function = "(none)", 0, ""
        if here is not None:
            code = here.f_code
            file, line, function = code.co_filename, here.f_lineno, code.co_name
        read = self._reads.setdefault(
            (file, line, name),
            {"file": file, "line": line, "function": function, "op": name, "count": 0},
        )
        read["count"] += 1
        read["answered"] = told
        read["why"] = "a guess from zeros or random numbers" if surety else "not computed"
        if given is None or not hasattr(tensor, "dtype"):
            return None
        if name in names.COUNTS:
            return (given,)
        kind = tensor.dtype
        if kind == self._torch.bool:
            return (bool(given),)
        return (float(given) if kind.is_floating_point else int(given),)

    def _value_of(self, tensor: Any, surety: int) -> str:
        if surety == NOTHING:
            return "False" if tensor.dtype == self._torch.bool else "0"
        return str(self._alias(tensor, _region(tensor)).reshape(-1)[0].item())


def _is_validation() -> bool:
    """Whether torch's distributions ask if their parameters are fit: to zeros, few are."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    return frame is not None and frame.f_code.co_filename.endswith(
        "torch/distributions/distribution.py"
    )


class _Move:
    """Takes the arguments of a call to the host. No closure: a cycle would keep tensors alive."""

    def __init__(self, values: Values, targets: Any, overwrites: bool) -> None:
        self._values = values
        self._targets = targets
        self._overwrites = overwrites
        self._torch = values.torch
        #: The least sure value that was met, and how many floats there were.
        self.surety = KNOWN
        self.floats = 0

    def to_host(self, value: Any) -> Any:
        """The value with host tensors for device tensors, and the host for a device."""
        if isinstance(value, list | tuple):
            return type(value)([self.to_host(item) for item in value])
        if isinstance(value, self._torch.Tensor):
            return self._tensor(value) if value.is_cuda else value
        if isinstance(value, self._torch.device):
            return self._torch.device("cpu")
        if isinstance(value, str) and value.startswith("cuda"):
            return "cpu"
        if isinstance(value, slice):
            return slice(*map(self.to_host, (value.start, value.stop, value.step)))
        return None if isinstance(value, self._torch.Generator) else value

    def _tensor(self, tensor: Any) -> Any:
        is_target = any(tensor is target for target in self._targets)
        if tensor.dtype.is_floating_point and not is_target:
            self.floats += tensor.numel()
        host, surety = self._values.host_of(tensor, is_target, self._overwrites)
        self.surety = min(self.surety, surety)
        return host


def _region(tensor: Any) -> tuple[int, int]:
    """The bytes from a tensor's first to its last element: address and length."""
    if tensor.numel() == 0:
        return 0, 0
    last = sum((n - 1) * stride for n, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.data_ptr(), (last + 1) * tensor.element_size()


def _tensors(value: Any) -> Iterator[Any]:
    """The tensors in a value, in lists, tuples and dicts too."""
    if isinstance(value, list | tuple):
        for item in value:
            yield from _tensors(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _tensors(item)
    elif hasattr(value, "untyped_storage"):
        yield value


def _shares(one: Any, other: Any) -> bool:
    """Whether two tensors lie in one storage."""
    return one is other or (
        one.is_cuda == other.is_cuda
        and one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr() != 0
    )


def _writes(name: str) -> bool:
    """Whether a function of that name writes to its first argument."""
    if name.startswith("__"):
        return name == "__setitem__" or (name.startswith("__i") and name not in _NOT_IN_PLACE)
    return name.endswith("_")


_NOT_IN_PLACE = {"__int__", "__index__", "__invert__", "__iter__"}


def _written(func: Any, args: Any, kwargs: Any) -> list[Any]:
    """The arguments that a function writes to."""
    found = list(_tensors(kwargs.get("out")))
    if _writes(func.__name__) and args:
        found.extend(_tensors(args[0]))
    return found


def _count_in(name: str, result: Any) -> int:
    """The number that a function needs in the middle, told from its result on the host."""
    if result is _FAILED:
        return 0
    first = result[0] if isinstance(result, tuple | list) else result
    if name in names.LARGEST:
        return max(int(first.shape[-1]) - 1, 0)
    return int(first.shape[0])
