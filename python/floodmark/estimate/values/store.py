"""Reads and writes the values of device tensors, which the phantom's library stores.

Sees: tensors, and the phantom's record of bytes that have a value. Talks to: the phantom's library.
Knows nothing of what the program reads.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from floodmark._core import Certainty
from floodmark.estimate.device.library import Phantom
from floodmark.estimate.values import function_names as names
from floodmark.estimate.values.host_copies import (
    MOST_INTEGERS,
    Move,
    OwnRandomNumbers,
    alias_of,
    check_operands,
    empty_on_host,
    is_float,
    region_of,
    tensors_in,
)
from floodmark.estimate.values.samples import Samples

#: The result of a function that cannot run on the host.
FAILED = object()


class Store:
    """The values of device tensors."""

    def __init__(self, phantom: Phantom, torch: Any) -> None:
        library = phantom.library
        self._torch = torch
        self._certainty = library.certainty
        self._set = library.set_certainty
        self.samples = Samples(self._certainty, self._set)
        #: Creates the host tensor of a copy from a shape and an element type.
        self.empty_on_host: Callable[[Any, Any], Any] = functools.partial(empty_on_host, torch)
        self.random_numbers = OwnRandomNumbers(torch)

    def certainty(self, tensor: Any) -> Certainty:
        """The lowest certainty of a tensor's elements."""
        # The values of a quantized tensor also depend on its quantizer.
        return Certainty.NOTHING if tensor.is_quantized else self._certainty(*region_of(tensor))

    def lacks_floats(self, name: str, args: Any, kwargs: Any, written: list[Any]) -> bool:
        """Whether a function computes floats from floats without a value."""
        return any(
            is_float(t)
            and t.is_cuda
            and self._certainty_of(name, t, args, any(t is one for one in written))
            == Certainty.ASSUMED
            for t in tensors_in((args, kwargs))
        )

    def forget(self, tensor: Any) -> None:
        """Forget the value of a tensor that a kernel wrote which did not run."""
        if tensor.is_cuda:
            self._set(*region_of(tensor), Certainty.NOTHING)

    def forget_all(self, tensors: list[Any]) -> None:
        """Forget the values of tensors that a kernel wrote which did not run."""
        for tensor in tensors:
            self.forget(tensor)

    def doubt(self, tensor: Any) -> None:
        """Mark the value of a tensor as assumed at best: a kernel that did not run may have written
        it."""
        if is_float(tensor):
            self.forget(tensor)
        elif tensor.is_cuda and self.certainty(tensor) in (Certainty.RANDOM, Certainty.KNOWN):
            self._set(*region_of(tensor), Certainty.ASSUMED)

    def run(
        self,
        name: str,
        func: Any,
        args: Any,
        kwargs: Any,
        targets: Any = (),
        copies: dict[int, Any] | None = None,
    ) -> tuple[Certainty, Any]:
        """Run a function on the host; returns the certainty of its result, and the result.

        `copies` receives the copies of the tensors that the function wrote."""
        found = {id(t): t for t in tensors_in((args, kwargs)) if t.is_cuda}
        written = {id(target) for target in targets}
        certainties = {
            key: self._certainty_of(name, t, args, key in written) for key, t in found.items()
        }
        certainty = min(certainties.values(), default=Certainty.KNOWN)
        certainty = Certainty.RANDOM if certainty == Certainty.SAMPLED else certainty
        try:
            check_operands(list(found.values()), certainty)
            move = Move(self._torch, lambda tensor: self.copy_of(tensor, certainties[id(tensor)]))
            on_host, named = move.call_on_host(args, kwargs)
            if copies is not None:
                copies.update((key, move.copy(found[key])) for key in written if key in found)
            if func.__name__ == "cuda":
                return certainty, on_host[0].clone()
            if name in names.RANDOM:
                with self.random_numbers.drawn():
                    return min(certainty, Certainty.RANDOM), func(*on_host, **named)
            return certainty, func(*on_host, **named)
        except Exception:
            # The call is too large, or torch's CPU kernels refuse it.
            return Certainty.NOTHING, FAILED

    def _certainty_of(self, name: str, tensor: Any, args: Any, is_target: bool) -> Certainty:
        """The certainty of an argument, as far as the result depends on it."""
        if is_target and name in names.OVERWRITES:
            return Certainty.KNOWN
        if name in names.SHAPED and args and tensor is args[0]:
            return Certainty.KNOWN
        certainty = self.certainty(tensor)
        if certainty == Certainty.SAMPLED and self.samples.find(tensor) is None:
            return Certainty.ASSUMED
        return max(certainty, Certainty.ASSUMED)

    def copy_of(self, tensor: Any, certainty: Certainty) -> Any:
        """A host copy of a tensor's values; zeros for unknown ones."""
        host = self.empty_on_host(tensor.shape, tensor.dtype)
        sample = self.samples.find(tensor) if certainty == Certainty.SAMPLED else None
        if sample is not None:
            host.copy_(sample.of_length(tensor.numel()).view(tensor.shape))
        elif self.certainty(tensor) in (Certainty.NOTHING, Certainty.SAMPLED):
            host.zero_()
        else:
            host.copy_(alias_of(self._torch, tensor))
        return host

    def put(self, target: Any, value: Any, certainty: Certainty) -> None:
        """Store the value of a device tensor, or write it to a host tensor that is a copy's
        target."""
        if not target.is_cuda:
            if target.shape == value.shape and target.data_ptr() != value.data_ptr():
                # Autograd may have saved the tensor: writing through `data` keeps its version.
                target.data.copy_(value)
            return None
        if is_float(target) and certainty < Certainty.RANDOM:
            return self.forget(target)
        is_followed = target.numel() <= MOST_INTEGERS and not target.is_quantized
        if target.shape != value.shape or not is_followed:
            return self.forget(target)
        region = region_of(target)
        if region[1]:
            alias_of(self._torch, target).copy_(value)
            self._set(*region, certainty)
        return None

    def settle(self, target: Any, value: Any, certainty: Certainty) -> None:
        """Store what a function wrote to the copy of a tensor."""
        if not target.is_cuda:
            return
        region = region_of(target)
        before = self.certainty(target)
        if value is None:
            self.forget(target)
            return
        self.put(target, value, certainty)
        has_gaps = region[1] != target.numel() * target.element_size()
        if has_gaps and self.certainty(target) != Certainty.NOTHING:
            # The function did not write to the gaps between the elements.
            self._set(*region, min(certainty, before))

    def rewrite(self, mask: Any, count: int) -> None:
        """Give a mask that many true elements, evenly spread: its backward pass counts them
        again."""
        torch = self._torch
        flat = torch.zeros(mask.numel(), dtype=mask.dtype, device="cpu")
        if count:
            flat[torch.arange(count, device="cpu") * mask.numel() // count] = 1
        alias_of(torch, mask).copy_(flat.view(mask.shape))
        self._set(*region_of(mask), Certainty.ASSUMED)
