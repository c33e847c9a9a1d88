"""When optimizers step, and what they keep.

The hooks run once for every `step` of any `torch.optim.Optimizer`. They tell the probe that the
phase begins and ends, which ends a training step, and label gradients and states by their
storages.

Sees: torch.optim. Talks to: `_core`, `names`, `gradients`. Raises nothing: a failure here ends
nothing but itself.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import ModuleType
from typing import Any
from weakref import WeakKeyDictionary

from floodmark import _core
from floodmark.recording.gradients import GradientLabels, GradientSet
from floodmark.recording.names import label_of, name_of

#: States are made in the first step and stay where they are; the second catches those made late.
_STEPS_WITH_STATES = 2


class OptimizerHooks:
    """Listens to every optimizer until `remove`."""

    def __init__(self, torch: ModuleType, labels: GradientLabels) -> None:
        from torch.optim import optimizer as optimizers

        self._tensor = torch.Tensor
        self._steps: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
        self._labels = labels
        self._gradients: WeakKeyDictionary[Any, GradientSet] = WeakKeyDictionary()
        self._handles = [
            optimizers.register_optimizer_step_pre_hook(self._before),
            optimizers.register_optimizer_step_post_hook(self._after),
        ]

    def remove(self) -> None:
        """Listen no more."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def _before(self, optimizer: Any, *_: object) -> None:
        with contextlib.suppress(Exception):
            _core.note_optimizer(True)
            self._label_gradients(optimizer)

    def _after(self, optimizer: Any, *_: object) -> None:
        with contextlib.suppress(Exception):
            steps = self._steps.get(optimizer, 0)
            self._steps[optimizer] = steps + 1
            if steps < _STEPS_WITH_STATES:
                self._label_states(optimizer)
        with contextlib.suppress(Exception):
            _core.note_optimizer(False)

    def _label_gradients(self, optimizer: Any) -> None:
        """Gradients are new in every step, so this is done in every step, and is lean."""
        gradients = [p.grad for group in optimizer.param_groups for p in group["params"]]
        known = self._gradients.get(optimizer)
        if known is None or not known.fits(gradients):
            known = self._gradients[optimizer] = GradientSet(_parameters(optimizer))
            self._labels.leave_to_optimizer(p for _, p in _parameters(optimizer))
        known.label_tensors(gradients)

    def _label_states(self, optimizer: Any) -> None:
        labels = []
        for name, parameter in _parameters(optimizer):
            qualified = name_of(parameter) or name
            labels.extend(label_of(parameter, "parameter", qualified))
            state = optimizer.state.get(parameter)
            if not isinstance(state, dict):
                continue
            for key, value in state.items():
                if isinstance(value, self._tensor):
                    labels.extend(label_of(value, "optimizer state", f"{qualified}.{key}"))
        _core.label(labels)


def _parameters(optimizer: Any) -> Iterator[tuple[str, Any]]:
    for number, group in enumerate(optimizer.param_groups):
        for position, parameter in enumerate(group["params"]):
            yield f"param_groups[{number}][{position}]", parameter
