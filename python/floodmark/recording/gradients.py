"""What gradients are called.

The probe sees every gradient that autograd adds to a `.grad`, and labels its block. Here gradients
get the names of their parameters: the probe calls `after_backward` when a backward pass has ended,
also by an exception, before the program goes on. Parameters of an optimizer that steps are left to
its hooks, which name them once for each step.

Sees: parameters of named modules; tensors with a gradient, in a program without an optimizer. Talks
to: `_core`, `names`. Holds weak references only. Raises nothing.
"""

from __future__ import annotations

import contextlib
import gc
import sys
import weakref
from collections.abc import Iterable
from types import ModuleType
from typing import Any

from floodmark import _core, torch_private
from floodmark.recording import names
from floodmark.recording.names import label_of, name_of

#: A search takes about 30 ms. Parameters are made early; the later ones find what was made late.
_PASSES_WITH_SEARCH = (1, 2, 8, 64)


class GradientSet:
    """The labels of the gradients of some parameters, in their order."""

    def __init__(self, named: Iterable[tuple[str, Any]]) -> None:
        labels = []
        self._has_label = []
        self._is_sharded = False
        for name, parameter in named:
            found = []
            if parameter.grad is not None:
                found = label_of(parameter.grad, "gradient", name_of(parameter) or name)
                self._is_sharded |= torch_private.is_sharded(parameter.grad)
            kind, index, _, label = found[0] if found else ("cpu", 0, 0, 0)
            labels.append((kind, index, label))
            self._has_label.append(bool(found))
        self._labels = _core.LabelSet(labels)

    def fits(self, gradients: list[Any]) -> bool:
        """Whether the parameters are the same, and none got a gradient that it did not have."""
        return len(gradients) == len(self._has_label) and all(
            gradient is None or has_label
            for gradient, has_label in zip(gradients, self._has_label, strict=True)
        )

    def label_tensors(self, gradients: list[Any]) -> None:
        """Tell where the gradients are now."""
        if self._is_sharded:
            gradients = [torch_private.local_part(gradient) for gradient in gradients]
        address_of = names.address_of
        pairs = zip(gradients, self._has_label, strict=True)
        # A sparse gradient has no label, and no address.
        self._labels.set_addresses(
            [address_of(g) if g is not None and known else 0 for g, known in pairs]
        )


class GradientLabels:
    """Labels gradients after each backward pass, until `remove`."""

    def __init__(self, torch: ModuleType) -> None:
        self._torch = torch
        self._passes = 0
        #: Parameters of optimizers that have stepped, by `id`.
        self._of_optimizers: dict[int, weakref.ref[Any]] = {}
        #: Tensors with a gradient that no module has.
        self._loose: list[weakref.ref[Any]] = []
        #: The parameters that are labelled here, as long as nothing changes.
        self._own: list[weakref.ref[Any]] | None = None
        self._set: GradientSet | None = None
        self._seen_names = 0
        global _current
        _current = self

    def remove(self) -> None:
        """Name gradients no more."""
        global _current
        _current = None

    def _name_all(self) -> None:
        everything = [*names.parameters(), *_live(self._loose)]
        GradientSet(("", p) for p in everything).label_tensors([p.grad for p in everything])

    def leave_to_optimizer(self, parameters: Iterable[Any]) -> None:
        """An optimizer steps: its hooks label the gradients of its parameters."""
        for parameter in parameters:
            self._of_optimizers[id(parameter)] = weakref.ref(parameter)
        self._own = None

    def after_backward(self, has_failed: bool) -> None:
        """Name the gradients that no optimizer's hooks will name; after a failure, all."""
        if has_failed:
            self._name_all()
            return
        self._passes += 1
        if self._passes in _PASSES_WITH_SEARCH and not torch_private.has_made_optimizer(
            self._torch
        ):
            self._find_loose()
        parameters = self._parameters()
        if not parameters:
            return
        gradients = [parameter.grad for parameter in parameters]
        if self._set is None or not self._set.fits(gradients):
            self._set = GradientSet(("", parameter) for parameter in parameters)
        self._set.label_tensors(gradients)

    def _parameters(self) -> list[Any]:
        """The parameters that are labelled here."""
        if self._own is not None and self._seen_names == names.count():
            found = _live(self._own)
            if len(found) == len(self._own):
                return found
        everything = [*names.parameters(), *_live(self._loose)]
        found = [parameter for parameter in everything if not self._is_left(parameter)]
        self._own = [weakref.ref(parameter) for parameter in found]
        self._seen_names = names.count()
        self._set = None
        return found

    def _is_left(self, parameter: Any) -> bool:
        known = self._of_optimizers.get(id(parameter))
        return known is not None and known() is parameter

    def _find_loose(self) -> None:
        """Look for tensors with a gradient that belong to no module, as in programs without one.

        The list of all objects also has tensors that only C++ retains. Another thread may be about
        to destroy such a one, without the GIL, and to touch it then would free it twice. So this
        looks only while no other thread of Python runs.
        """
        if len(sys._current_frames()) > 1:
            return
        kinds = {id(kind) for kind in torch_private.tensor_types(self._torch)}
        labels = []
        found = []
        for thing in [thing for thing in gc.get_objects() if id(type(thing)) in kinds]:
            with contextlib.suppress(Exception):
                # Only a leaf may be asked for its gradient without a warning.
                if not thing.requires_grad or not thing.is_leaf or thing.grad is None:
                    continue
                if name_of(thing) is None:
                    found.append(weakref.ref(thing))
                    if isinstance(thing, self._torch.nn.Parameter):
                        labels.extend(label_of(thing, "parameter", ""))
        _core.label(labels)
        self._loose = found
        self._own = None


_current: GradientLabels | None = None


def after_backward(has_failed: bool) -> None:
    """A backward pass has returned or raised. Called by the probe, with the GIL held."""
    if _current is not None:
        _current.after_backward(has_failed)


def _live(references: list[weakref.ref[Any]]) -> list[Any]:
    return [thing for reference in references if (thing := reference()) is not None]
