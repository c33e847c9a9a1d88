"""Values on a simulated GPU: integers and booleans are computed on the host.

Kernels do not run, but programs read some of their results back and branch on them: lengths, masks,
positions. So a function whose arguments have values runs a second time, on the host, on copies of
the arguments, and its result is stored for the device address. Floating-point numbers are not
computed, except for small tensors and random numbers; they read as zero. Every value that a program
reads and that depends on such a zero, on random numbers or on nothing known is listed with its
line.

Sees: calls of torch, through `_core.Functions` and `_core.Kernel`. Talks to: the phantom's library,
which keeps which bytes have a value. Must never raise into the program.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, Any

from floodmark import _core, torch_private
from floodmark._core import AnswerKind, Certainty
from floodmark.estimate.device.library import Phantom
from floodmark.estimate.values import function_names as names
from floodmark.estimate.values.assumed_reads import AssumedReads, number_of
from floodmark.estimate.values.host_copies import (
    MOST_INTEGERS,
    MOST_RANDOM_FLOATS,
    alias_of,
    is_float,
    region_of,
    tensors_in,
    with_storages_of_their_own,
)
from floodmark.estimate.values.sampled_functions import Sampling
from floodmark.estimate.values.store import FAILED, Store

if TYPE_CHECKING:
    from floodmark.reports.answer_types import PhantomRead

_Kind = _core.FunctionKind
#: The reason that is listed for a read of that certainty.
_REASONS = {
    Certainty.NOTHING: "not computed",
    Certainty.ASSUMED: "rests on values that were not computed and count as zero",
}
#: Floats of more elements than this are not computed.
_MOST_KNOWN_FLOATS = 1 << 12


def _copied(certainty: Certainty) -> str:
    """The listed value of a copy to the host."""
    return "zeros" if certainty == Certainty.NOTHING else "its value"


class Values:
    """The known values on the simulated devices of this process."""

    def __init__(self, phantom: Phantom, torch: ModuleType) -> None:
        self._torch: Any = torch
        self._answer = phantom.library.set_answer
        self.store = Store(phantom, torch)
        self._sampling = Sampling(torch, self.store)
        self._reads = AssumedReads(torch, phantom.machine.answers, phantom.folder)
        #: Regions whose count is listed already: a backward pass counts them again.
        self._counted: set[tuple[int, int]] = set()
        self._local = threading.local()
        #: Called when a transform of `torch.func` runs.
        self.at_transform: Callable[[], None] = lambda: None

    def reads(self) -> list[PhantomRead]:
        """Every read of an unknown value: line, count and assumed value."""
        return self._reads.all()

    # What `_core.Functions` calls.

    def classify(self, func: Any) -> _core.FunctionKind:
        """How `_core.Functions` must handle a function of torch."""
        name = getattr(func, "__name__", "")
        if name in names.NUMBERS or name in names.CHECKED:
            return _Kind.READ
        if name in names.COUNTS or name in names.SPARSE:
            return _Kind.READ
        if name in names.OPERATORS:
            return _Kind.OPERATOR
        if (
            name in names.QUERIES
            or name in names.FLOAT_LAYERS
            or (
                name.startswith(("is_", "has_", "_is_", "get_", "register_", "_dim", "as_strided"))
                and name not in ("_is_all_true", "_is_any_true")
            )
        ):
            return _Kind.THROUGH
        if _writes(name) or name in names.CREATES or name in names.STATISTICS:
            return _Kind.WRITE
        return _Kind.ELEMENTWISE if name in names.ELEMENTWISE else _Kind.EXAMINE

    def is_plain(self, kind: type) -> bool:
        """Whether functions on tensors of this class can be followed."""
        try:
            return torch_private.is_plain_class(self._torch, kind)
        except Exception:
            return False

    def is_kept(self, tensor: Any) -> bool:
        """Whether every element of a tensor has a value."""
        try:
            return self.store.certainty(tensor) != Certainty.NOTHING
        except RuntimeError:
            # A tensor of a transform (vmap, grad) has no address.
            return False

    def before(self, func: Any, args: Any, kwargs: Any) -> tuple[Any] | None:
        """List a read. A tuple has the value that the program gets instead."""
        self._give(AnswerKind.ZERO, 0)
        try:
            return self._before(func, args, kwargs or {})
        except Exception:
            return None

    def end_of_read(self) -> None:
        """The function that reads has returned."""
        self._end_giving()

    def before_transform(self) -> None:
        """A function is about to run on tensors of a transform, which have no address."""
        with contextlib.suppress(Exception):
            self.at_transform()

    def after_transform(self, args: Any) -> None:
        """A function wrote values that are not computed to tensors of a transform."""
        with contextlib.suppress(Exception):
            for tensor in tensors_in(args):
                self.store.doubt(torch_private.without_transforms(self._torch, tensor))

    def after(self, func: Any, args: Any, kwargs: Any, out: Any) -> Any:
        """Store or forget the values of the tensors that a function wrote."""
        try:
            return self._after(func, args, kwargs or {}, out)
        except Exception:
            with contextlib.suppress(Exception):
                self.store.forget_all(_written(func, args, kwargs or {}))
            return out

    def after_unseen(self, func: Any, args: Any, kwargs: Any, out: Any) -> None:
        """A function ran on a tensor subclass of the program, and is not followed."""
        with contextlib.suppress(Exception):
            parts = [
                part
                for tensor in tensors_in((args, kwargs or {}))
                for part in torch_private.parts(tensor)
                if part.is_cuda
            ]
            if func.__name__ in names.NUMBERS:
                certainty = min(map(self.store.certainty, parts), default=Certainty.KNOWN)
                self._assume(func.__name__, certainty, lambda: str(out))
                return
            for part in parts:
                self.store.doubt(part)

    # What `_core.Kernel` calls.

    def before_count(self, operator: Any, args: Any, kwargs: Any) -> tuple[Any, Certainty] | None:
        """Set the number that an operator reads; returns its results and their certainty."""
        try:
            return self._before_count(operator, args, kwargs or {})
        except Exception:
            return None

    def after_count(self, plan: tuple[Any, Certainty], out: Any) -> None:
        """Store the results of an operator that has read its number."""
        self._end_giving()
        host, certainty = plan
        with contextlib.suppress(Exception):
            for device, value in zip(tensors_in(out), tensors_in(host), strict=False):
                self.store.put(device, value, certainty)

    def follow(self, operator: Any, args: Any, kwargs: Any, out: Any) -> None:
        """Compute and store the result of an operator, if its arguments have values."""
        with contextlib.suppress(Exception):
            name, kwargs = _operator_name(operator), kwargs or {}
            sampled = self._sampling.give_sample(name, operator, args, kwargs, out)
            if sampled != Certainty.NOTHING:
                return
            certainty, host = self.store.run(name, operator, args, kwargs)
            if host is not FAILED:
                self.store.put(out, host, certainty)

    def after_launch(self, args: Any, kwargs: Any) -> None:
        """A kernel that did not run may have written to these tensors: their values become
        assumed."""
        with contextlib.suppress(Exception):
            for tensor in tensors_in((args, kwargs)):
                self.store.doubt(tensor)

    # Reads.

    def _before(self, func: Any, args: Any, kwargs: Any) -> tuple[Any] | None:
        name = func.__name__
        if name in names.CHECKED:
            self._change_answer(AnswerKind.TRUTH_VALUES, names.CHECKED[name])
            return None
        source = args[0]
        if name in names.NUMBERS:
            if name in ("equal", "allclose", "__contains__"):
                return None
            certainty = self.store.certainty(source)
            if name == "__bool__" and certainty < Certainty.KNOWN and _is_validation():
                return self._instead(True)
            given = self._note(name, source, certainty)
            if given is None:
                return None
            return self._instead(number_of(self._torch, source.dtype, given))
        if name in names.SPARSE and source.layout != self._torch.strided:
            # A sparse tensor stores its count.
            self._change_answer(AnswerKind.NUMBER, torch_private.sparse_count(source))
            return None
        certainty, host = self.store.run(name, func, args, kwargs)
        count = _count_in(name, host)
        if certainty < Certainty.KNOWN:
            given = self._assume(name, certainty, lambda: f"{count} rows")
            count = count if given is None else int(given)
        self._change_answer(AnswerKind.NUMBER, count)
        return None

    def _instead(self, value: Any) -> tuple[Any]:
        """The result of `before` that replaces the call of the function."""
        self._end_giving()
        return (value,)

    def _note(
        self, name: str, tensor: Any, certainty: Certainty, answered: str = ""
    ) -> float | None:
        return self._assume(name, certainty, lambda: answered or self._value_of(tensor, certainty))

    def _assume(
        self,
        name: str,
        certainty: Certainty,
        assumed: Callable[[], str],
        counted: tuple[int, int] | None = None,
    ) -> float | None:
        """List a read; returns the user's value for this line, if there is one.

        `counted` is the region whose elements were counted."""
        here, given = self._reads.line()
        if certainty == Certainty.KNOWN and given is None:
            return None
        if here is None and counted in self._counted:
            return None
        if counted is not None:
            self._counted.add(counted)
        text = assumed() if given is None else f"{given:g} (--answer)"
        self._reads.add(here, name, text, _REASONS.get(certainty, "rests on random numbers"))
        return given

    def _value_of(self, tensor: Any, certainty: Certainty) -> str:
        if certainty == Certainty.NOTHING:
            return "False" if tensor.dtype == self._torch.bool else "0"
        return str(self.store.copy_of(tensor, certainty).reshape(-1)[0].item())

    # Counts.

    def _before_count(self, operator: Any, args: Any, kwargs: Any) -> tuple[Any, Certainty] | None:
        name, source = _operator_name(operator), args[0]
        if name == "_coalesce":
            source, _ = torch_private.sparse_parts(source)
            operator, args = self._torch.unique, (source,)
            kwargs = {"dim": 1}
        elif self._is_given() and self.store.certainty(source) < Certainty.KNOWN:
            # The function that contains this operator has set the number.
            return None
        region = region_of(source)
        count, certainty, host = self._count(name, operator, args, kwargs)
        if certainty < Certainty.KNOWN:
            given = self._assume(name, certainty, lambda: f"{count} rows", region)
            if given is not None:
                count = int(given)
                if name == "nonzero":
                    count = min(count, source.numel())
                    self.store.rewrite(source, count)
                    _, certainty, host = self._count(name, operator, args, kwargs)
        self._give(AnswerKind.NUMBER, count)
        return (None if name == "_coalesce" else host), certainty

    def _count(
        self, name: str, operator: Any, args: Any, kwargs: Any
    ) -> tuple[int, Certainty, Any]:
        """The number that an operator reads, its certainty, and the operator's results."""
        source = args[0]
        if name == "nonzero":
            sample = self.store.samples.find(source)
            if sample is not None:
                return sample.rows(source.numel()), sample.certainty, None
            if source.numel() > MOST_INTEGERS and self.is_kept(source):
                kept = alias_of(self._torch, source)
                return int(kept.count_nonzero()), self.store.certainty(source), None
        kwargs = {key: value for key, value in kwargs.items() if key != "out"}
        if name == "nonzero":
            operator = self._torch.nonzero
        certainty, host = self.store.run(name, operator, args, kwargs)
        count = _count_in(name, host)
        if name in ("unique_dim", "unique_dim_consecutive") and host is not FAILED:
            count = int(host[0].shape[args[1]])
        elif name == "_coalesce" and host is not FAILED:
            count = int(host.shape[1])
        return count, certainty, None if host is FAILED else host

    # Results.

    def _after(self, func: Any, args: Any, kwargs: Any, out: Any) -> Any:
        name = func.__name__
        if name.startswith(names.UNSAFE):
            self.store.forget_all(list(tensors_in((args, kwargs))))
            return out
        written = _written(func, args, kwargs)
        given = list(tensors_in((args, kwargs)))
        made = with_storages_of_their_own(list(tensors_in(out)), given)
        if name in names.COPIES and not self._must_convert(name, args, written, made):
            return out
        certainty = self._sampling.give_sample(name, func, args, kwargs, *(written or made))
        if certainty != Certainty.NOTHING:
            self._note_copies_off(name, made, args, certainty)
            return out
        if name in names.STATISTICS or any(not self._is_wanted(name, t, args) for t in written):
            # A call that writes to many tensors, mostly lists of parameters, is not run on the
            # host.
            self.store.forget_all(written)
            return out
        is_number = name in names.NUMBERS
        if not is_number and not any(self._is_wanted(name, t, args) for t in (*written, *made)):
            self.store.forget_all(written)
            return out
        are_floats = not is_number and all(t.is_cuda and is_float(t) for t in (*written, *made))
        if are_floats and self.store.lacks_floats(name, args, kwargs, written):
            self.store.forget_all(written)
            return out
        return self._work_out(name, func, args, kwargs, (out, written, made))

    def _work_out(
        self,
        name: str,
        func: Any,
        args: Any,
        kwargs: Any,
        results: tuple[Any, list[Any], list[Any]],
    ) -> Any:
        """Run a function on the host, and store the tensors that it created or wrote."""
        out, written, made = results
        copies: dict[int, Any] = {}
        certainty, host = self.store.run(name, func, args, kwargs, written, copies)
        self._note_copies_off(name, made + written, args, certainty)
        if host is FAILED:
            self.store.forget_all(written)
            return out
        if name in names.NUMBERS:
            if certainty < Certainty.KNOWN and name in ("equal", "allclose", "__contains__"):
                self._note(name, args[0], certainty, str(host))
            return host
        for device, value in zip(tensors_in(out), tensors_in(host), strict=False):
            if any(device is one for one in made):
                self.store.put(device, value, certainty)
        for target in written:
            self.store.settle(target, copies.get(id(target)), certainty)
        return out

    def _must_convert(self, name: str, args: Any, written: list[Any], made: list[Any]) -> bool:
        """Whether a copy converts its bytes. If not, the phantom's library has copied them."""
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
        if (source.is_conj(), source.is_neg()) != (target.is_conj(), target.is_neg()):
            return True
        if source.is_cuda:
            certainty = self.store.certainty(source)
            if certainty == Certainty.SAMPLED:
                return True
            if certainty < Certainty.KNOWN and target.is_cpu:
                self._note(name, source, certainty, _copied(certainty))
        return False

    def _is_wanted(self, name: str, tensor: Any, args: Any) -> bool:
        """Whether the value of a tensor that a function wrote is computed."""
        if not tensor.is_cuda:
            return any(operand.is_cuda for operand in tensors_in(args))
        if not is_float(tensor):
            return bool(tensor.numel() <= MOST_INTEGERS)
        is_made_up = name in names.RANDOM or name in names.CREATES
        return bool(tensor.numel() <= (MOST_RANDOM_FLOATS if is_made_up else _MOST_KNOWN_FLOATS))

    def _note_copies_off(
        self, name: str, targets: list[Any], args: Any, certainty: Certainty
    ) -> None:
        """List copies to the host as reads."""
        sources = [t for t in tensors_in(args) if t.is_cuda]
        if certainty < Certainty.KNOWN and sources and any(t.is_cpu for t in targets):
            self._note(name, sources[0], certainty, _copied(certainty))

    # The answers to device reads that an operator on this thread makes.

    def _given(self) -> list[tuple[AnswerKind, int]]:
        given: list[tuple[AnswerKind, int]] | None = getattr(self._local, "given", None)
        if given is None:
            given = self._local.given = []
        return given

    def _is_given(self) -> bool:
        given = self._given()
        return bool(given) and given[-1][0] is not AnswerKind.ZERO

    def _give(self, kind: AnswerKind, value: int) -> None:
        """Set what device reads of this thread return until `_end_giving`; `ZERO` is the device's
        value."""
        self._given().append((kind, value))
        self._answer(kind, value)

    def _change_answer(self, kind: AnswerKind, value: int) -> None:
        self._given().pop()
        self._give(kind, value)

    def _end_giving(self) -> None:
        given = self._given()
        given.pop()
        self._answer(*(given[-1] if given else (AnswerKind.ZERO, 0)))


def _is_validation() -> bool:
    """Whether torch's distributions validate their parameters, which often fails for zeros."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    return frame is not None and frame.f_code.co_filename.endswith(
        "torch/distributions/distribution.py"
    )


def _writes(name: str) -> bool:
    """Whether a function of that name writes to its first argument."""
    if name.startswith("__"):
        return name == "__setitem__" or (name.startswith("__i") and name not in _NOT_IN_PLACE)
    return name.endswith("_")


_NOT_IN_PLACE = {"__int__", "__index__", "__invert__", "__iter__"}


def _written(func: Any, args: Any, kwargs: Any) -> list[Any]:
    """The arguments that a function writes to."""
    found = list(tensors_in(kwargs.get("out")))
    if func.__name__ in names.STATISTICS:
        return _statistics(args, kwargs)
    if _writes(func.__name__) or kwargs.get("inplace"):
        # Functions of `torch.nn.init` pass their tensor by keyword.
        found.extend(tensors_in(args[0] if args else next(iter(kwargs.values()), None)))
    return found


def _statistics(args: Any, kwargs: Any) -> list[Any]:
    """The running statistics among a norm's arguments, if it updates them."""
    flags = (kwargs.get("training"), kwargs.get("use_input_stats"), *args[5:6])
    if not any(flags):
        return []
    given = (args[1:5], {name: t for name, t in kwargs.items() if name.startswith("running_")})
    return [t for t in tensors_in(given) if not t.requires_grad]


def _operator_name(operator: Any) -> str:
    """An operator's name without its overload."""
    return str(operator.__name__).partition(".")[0]


def _count_in(name: str, result: Any) -> int:
    """The number that a function reads on the way, derived from its result on the host."""
    if result is FAILED:
        return 0
    if name in names.SPARSE:
        return torch_private.sparse_count(result)
    first = result[0] if isinstance(result, tuple | list) else result
    if name in names.LARGEST:
        return max(int(first.shape[-1]) - 1, 0)
    return int(first.shape[0])
