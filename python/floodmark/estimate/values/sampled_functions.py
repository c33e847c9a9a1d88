"""Functions of samples: values of tensors that are too large to be computed element by element.

Sees: calls of torch's functions. Talks to: `store`, which keeps the samples.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from floodmark._core import Certainty
from floodmark.estimate.values import function_names as names
from floodmark.estimate.values.host_copies import (
    MOST_INTEGERS,
    MOST_RANDOM_FLOATS,
    MOST_UNKNOWN_FLOATS,
    Move,
    is_float,
    tensors_in,
)
from floodmark.estimate.values.samples import LENGTH, Sample
from floodmark.estimate.values.store import Store


class Sampling:
    """Computes samples of large results."""

    def __init__(self, torch: Any, store: Store) -> None:
        self._torch = torch
        self._store = store

    def give_sample(self, name: str, func: Any, args: Any, kwargs: Any, *targets: Any) -> Certainty:
        """Set the sample of a large result; returns its certainty, `NOTHING` without a sample."""
        if len(targets) != 1 or not isinstance(targets[0], self._torch.Tensor):
            return Certainty.NOTHING
        target = targets[0]
        if name in names.CREATES or (name in names.OVERWRITES and name in names.RANDOM):
            sample = self._created(name, func, args, kwargs, target)
        elif name.rstrip("_") in names.ELEMENTWISE or name in names.ELEMENTWISE:
            sample = self._of_samples(name, func, args, kwargs, target)
        else:
            return Certainty.NOTHING
        if sample is None:
            return Certainty.NOTHING
        if target.is_cuda:
            self._store.samples.put(target, sample)
        else:
            target.copy_(sample.of_length(target.numel()).view(target.shape))
        return sample.certainty

    def _created(self, name: str, func: Any, args: Any, kwargs: Any, target: Any) -> Sample | None:
        """A sample of a large result of a function that creates tensors."""
        most = MOST_RANDOM_FLOATS if is_float(target) else MOST_INTEGERS
        if not target.is_cuda or target.numel() <= most or target.dtype.is_complex:
            return None
        torch = self._torch
        if any(t.is_cuda and t is not target for t in tensors_in((args, kwargs))) and (
            name not in names.SHAPED
        ):
            return None
        certainty = Certainty.RANDOM if name in names.RANDOM else Certainty.KNOWN
        length = LENGTH if certainty == Certainty.RANDOM else 1
        if name not in names.CREATES:
            move = Move(torch, lambda _: self._store.empty_on_host((length,), target.dtype))
            on_host, named = move.call_on_host(args, kwargs)
            return self._run_sample(lambda: func(*on_host, **named), certainty)
        make = getattr(torch, names.CREATES[name])
        fill = () if names.CREATES[name] != "full" else (kwargs.get("fill_value", args[-1]),)
        options = {"dtype": target.dtype, "device": "cpu"}
        return self._run_sample(lambda: make((length,), *fill, **options), certainty)

    def _of_samples(
        self, name: str, func: Any, args: Any, kwargs: Any, target: Any
    ) -> Sample | None:
        """A sample of a large result of an elementwise function of samples."""
        if target.numel() <= MOST_UNKNOWN_FLOATS:
            return None
        found: dict[int, Sample] = {}
        for operand in tensors_in((args, kwargs)):
            sample = self._operand(operand)
            if sample is None:
                return None
            found[id(operand)] = sample
        if not found or (name.endswith("_") and id(target) not in found):
            return None
        certainty = min(sample.certainty for sample in found.values())
        if name in names.RANDOM:
            certainty = min(certainty, Certainty.RANDOM)
        if certainty == Certainty.ASSUMED and is_float(target):
            # An unknown operand reads as zero, like in small tensors.
            return None
        length = max(len(sample.values) for sample in found.values())
        length = LENGTH if name in names.RANDOM else length
        move = Move(self._torch, lambda operand: found[id(operand)].of_length(length))
        on_host, named = move.call_on_host(args, kwargs)
        if func.__name__ == "cuda":
            return Sample(on_host[0], certainty)
        return self._run_sample(lambda: func(*on_host, **named), certainty)

    def _operand(self, tensor: Any) -> Sample | None:
        """The sample of an operand, its single value, or zero."""
        if not tensor.is_cuda:
            return (
                Sample(tensor.detach().reshape(1), Certainty.KNOWN) if tensor.numel() == 1 else None
            )
        certainty = self._store.certainty(tensor)
        if certainty == Certainty.SAMPLED:
            return self._store.samples.find(tensor)
        if certainty == Certainty.NOTHING and is_float(tensor):
            return Sample(self._torch.zeros(1, dtype=tensor.dtype, device="cpu"), Certainty.ASSUMED)
        if certainty != Certainty.NOTHING and tensor.numel() == 1:
            return Sample(self._store.copy_of(tensor, certainty).reshape(1), certainty)
        return None

    def _run_sample(self, call: Callable[[], Any], certainty: Certainty) -> Sample | None:
        draws: Any = contextlib.nullcontext()
        if certainty == Certainty.RANDOM:
            draws = self._store.random_numbers.drawn()
        with draws:
            values = call()
        return Sample(values, certainty) if values.dim() == 1 else None
