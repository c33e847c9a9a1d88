"""Optimizer states in pinned memory of the host: `offload-optimizer-states`.

The optimizer updates one parameter after the other: the states of a parameter are copied to the
GPU, the parameter is updated, and the states are copied back. So the GPU has the states of one
parameter at a time. Small states stay on the GPU. The code that is printed is the code that runs.
"""

from __future__ import annotations

from typing import Any

from floodmark import torch_private
from floodmark.changes.change import Change, defined_by
from floodmark.changes.optimizers import has_closure, updates_one_by_one, watch_steps
from floodmark.changes.pasted_code import for_optimizer

OFFLOADED_STATES = """\
class OffloadedStates:
    def __init__(self, least_bytes=1 << 16):
        self.least_bytes = least_bytes
        self.on_host = {}

    def update_one(self, optimizer, group, parameter):
        step = type(optimizer).step
        step = getattr(step, "__wrapped__", step)  # without the hooks
        groups, optimizer.param_groups = optimizer.param_groups, [{**group, "params": [parameter]}]
        self.fetch(optimizer.state[parameter], parameter)
        step(optimizer)
        self.offload(optimizer.state[parameter], parameter)
        optimizer.param_groups = groups

    def wait(self, *_):
        if self.on_host:
            # `state_dict()` reads these copies on the host: they must be complete.
            torch.cuda.current_stream().synchronize()

    def fetch(self, state, parameter):
        for name, copy in self.on_host.get(parameter, {}).items():
            if state.get(name) is copy:
                state[name] = copy.to(parameter.device, non_blocking=True)

    def offload(self, state, parameter):
        for name, value in state.items():
            if torch.is_tensor(value) and value.is_cuda and value.nbytes >= self.least_bytes:
                copies = self.on_host.setdefault(parameter, {})
                if name not in copies:
                    copies[name] = torch.empty_like(value, device="cpu", pin_memory=True)
                state[name] = copies[name].copy_(value, non_blocking=True)
"""

_ONE_BY_ONE = """

class OneByOne(OffloadedStates):
    def __init__(self):
        super().__init__()
        self.gradients = []

    def attach(self, optimizer):
        optimizer.register_step_pre_hook(self.update)
        optimizer.register_step_post_hook(self.put_gradients_back)

    def update(self, optimizer, args=(), kwargs=None):
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self.update_one(optimizer, group, parameter)
                    # The optimizer's own step finds nothing left to do.
                    self.gradients.append((parameter, parameter.grad))
                    parameter.grad = None
        self.wait()

    def put_gradients_back(self, optimizer=None, args=(), kwargs=None):
        for parameter, gradient in self.gradients:
            parameter.grad = gradient
        self.gradients.clear()
"""

_USE = "OneByOne().attach(optimizer)\n"


def states_on_host() -> Any:
    """What moves states to the host and back, for updates at other times than the step."""
    return defined_by(OFFLOADED_STATES, "OffloadedStates")()


def fetch_states(states: Any, optimizer: Any) -> None:
    """Bring all states of an optimizer back to the GPU."""
    for parameter, state in optimizer.state.items():
        states.fetch(state, parameter)


class OffloadedStates(Change):
    """Keeps optimizer states in pinned memory, but for those of the parameter in work."""

    name = "offload-optimizer-states"
    slows = True

    def attach(self, torch: Any) -> None:  # noqa: ARG002
        self._states = defined_by(OFFLOADED_STATES + _ONE_BY_ONE, "OneByOne")()
        self._optimizers: list[Any] = []
        self.on_exit(self._fetch_all)
        self.on_exit(watch_steps(self._before_step, self._after_step))

    def _before_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if not updates_one_by_one(optimizer):
            self.reason = f"`{type(optimizer).__name__}` does not update parameters one by one"
        elif has_closure(args, kwargs):
            self.give_up("the step of the optimizer computes the loss")
        elif any(torch_private.is_sharded(one) for one in _parameters(optimizer)):
            self.give_up("parameters are sharded, and so are their states")
        else:
            if all(one is not optimizer for one in self._optimizers):
                self._optimizers.append(optimizer)
            self._states.update(optimizer)
            self._note(optimizer)

    def _note(self, optimizer: Any) -> None:
        copies = self._copies(optimizer)
        self.host_bytes += sum(copy.nbytes for copy in copies)
        if copies:
            self.target = f"{len(copies)} states of `{type(optimizer).__name__}`"
            self.patch = self.patch or for_optimizer(
                optimizer, OFFLOADED_STATES + _ONE_BY_ONE + "\n", _USE, callback="OffloadStates"
            )
        else:
            self.reason = f"`{type(optimizer).__name__}` has no large states on the GPU"

    def _copies(self, optimizer: Any) -> list[Any]:
        """The states of an optimizer that are on the host."""
        on_host = self._states.on_host
        return [copy for one in _parameters(optimizer) for copy in on_host.get(one, {}).values()]

    def _after_step(self, *_: object) -> None:
        self._states.put_gradients_back()

    def _fetch_all(self) -> None:
        """The optimizers go on without the change."""
        for optimizer in self._optimizers:
            fetch_states(self._states, optimizer)
        self._optimizers.clear()

    def nothing_found(self) -> str:
        return "no optimizer made a step"


def _parameters(optimizer: Any) -> list[Any]:
    return [one for group in optimizer.param_groups for one in group["params"]]
