"""Other optimizers with fewer states: `optimizer=adafactor`, `optimizer=muon`.

Adafactor keeps a row and a column for each matrix. Muon keeps one state for each weight of the
repeated blocks, and Adam goes on for the rest. Both have the learning rate and the weight decay of
the program. The code that is printed is the code that runs. An optimizer that a program saves as a
whole can be loaded where floodmark is installed.
"""

from __future__ import annotations

import inspect
from typing import Any

from floodmark import torch_private
from floodmark.changes.change import definitions
from floodmark.changes.optimizer_parameters import model_of, tensors_in
from floodmark.changes.pasted_code import before_training, callers, model_name
from floodmark.changes.repeated_blocks import RepeatedBlocks, repeated_blocks
from floodmark.changes.replaced_optimizers import ReplacedOptimizer, Replacement, assignments

_ADAFACTOR = """\
class AdafactorFor{kind}(torch.optim.Adafactor):
    # it multiplies the learning rate by the size of each weight: tune it again
    def __init__(
        self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay={weight_decay},
        *_, foreach=None, **__
    ):
        super().__init__(params, lr=lr, weight_decay=weight_decay, foreach=foreach)
        # it has no `betas`, but schedulers that cycle them find them
        self.defaults["betas"] = betas
        for group in self.param_groups:
            group.setdefault("betas", betas)

    def add_param_group(self, group):
        group.pop("eps", None)  # that of Adafactor is another
        super().add_param_group(group)

"""

_MUON = """\
class MuonBeside{kind}(torch.optim.{kind}):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._step_supports_amp_scaling = False  # `GradScaler` unscales the gradients
        for group in self.param_groups:
            # positions, which `state_dict()` has too
            group["muon"] = [at for at, one in enumerate(group["params"]) if id(one) in matrices]

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        groups, by_muon, rest = self.param_groups, [], []
        for group in groups:
            params, chosen = group["params"], set(group.get("muon", ()))
            options = {{"lr": group["lr"], "weight_decay": group["weight_decay"]}}
            by_muon.append({{**options, "params": [params[at] for at in sorted(chosen)]}})
            others = [one for at, one in enumerate(params) if at not in chosen]
            rest.append({{**group, "params": others}})
        muon = torch.optim.Muon(by_muon, adjust_lr_fn="match_rms_adamw")  # for rates of Adam
        muon.state = self.state
        self.without_hooks(muon)(muon)
        self.param_groups = rest
        try:
            self.without_hooks(super())(self)
        finally:
            self.param_groups = groups
        return loss

    def __setstate__(self, state):
        # that of `{kind}` looks for its own states
        torch.optim.Optimizer.__setstate__(self, state)

    def without_hooks(self, optimizer):
        step = optimizer.step.__func__
        return getattr(step, "__wrapped__", step)

"""

_MATRICES = """\
def matrices_of(blocks):
    return {
        id(weight)
        for block in blocks
        for module in block.modules()
        if not isinstance(module, torch.nn.Embedding)
        for weight in module.parameters(recurse=False)
        if weight.ndim == 2
    }

"""


class LeanOptimizer(ReplacedOptimizer):
    """Trains by Adafactor, or by Muon beside Adam."""

    name = "optimizer"
    # Adafactor waits for the length of each parameter, and Muon has products of matrices.
    slows = True
    numerics = "training"

    def __init__(self, argument: str = "") -> None:
        super().__init__(argument)
        self._title = argument.title()

    def _replacement(self, torch: Any, kind: Any, params: Any) -> Replacement | None:
        came_with = {"Adafactor": "2.5", "Muon": "2.9"}[self._title]
        if not hasattr(torch.optim, self._title):
            self.reason = f"this torch has no `{self._title}`, which came with torch {came_with}"
            return None
        if any(map(torch_private.is_sharded, tensors_in(params))):
            self.reason = "parameters are sharded"
            return None
        is_muon = self._title == "Muon"
        found = self._muon(torch, kind, params) if is_muon else _adafactor(kind)
        if found is not None:
            _make_picklable(found.kind, (self.argument, kind.__name__))
        return found

    def _muon(self, torch: Any, kind: Any, params: Any) -> Replacement | None:
        given = tensors_in(params)
        root = model_of(torch, given)
        if root is None:
            self.reason = "no module has the parameters of the optimizer"
            return None
        found = repeated_blocks(torch, root)
        if found is None:
            self.reason = f"`{type(root).__name__}` has no repeated blocks"
            return None
        code = _MUON.format(kind=kind.__name__)
        matrices = definitions(_MATRICES, "muon")["matrices_of"](found.blocks)
        count = sum(id(one) in matrices for one in given)
        if not count:
            self.reason = "the optimizer has no weights of repeated blocks"
            return None
        return Replacement(
            _muon_class(kind, matrices),
            f"`Muon` for {count} weights of {found.described(len(found.blocks))}, "
            f"`{kind.__name__}` for the rest",
            _muon_patch(root, found, code, kind),
            takes_how=True,
        )


#: The newest class that each change made of each class of torch.
_made: dict[tuple[str, str], Any] = {}


def _make_picklable(kind: Any, name: tuple[str, str]) -> None:
    """Let a program save an optimizer of a class that no module has."""
    _made[name] = kind
    kind.__reduce__ = lambda optimizer: (unpickled, name, optimizer.__getstate__())


def unpickled(change: str, name: str) -> Any:
    """An optimizer of the class that the change makes, before its state is set."""
    if (change, name) not in _made:
        import torch

        kind = getattr(torch.optim, name)
        is_muon = change == "muon"
        # A state has the positions of what Muon updates.
        made = _muon_class(kind, set()) if is_muon else _adafactor(kind).kind
        _make_picklable(made, (change, name))
    return object.__new__(_made[change, name])


def _adafactor(kind: Any) -> Replacement:
    name = f"AdafactorFor{kind.__name__}"
    weight_decay = inspect.signature(kind).parameters["weight_decay"].default
    code = _ADAFACTOR.format(kind=kind.__name__, weight_decay=weight_decay)
    return Replacement(
        definitions(code, "adafactor")[name],
        f"`Adafactor` in place of `{kind.__name__}`",
        before_training(next(callers(), None)) + code + assignments(kind, name),
        takes_how=True,
    )


def _muon_class(kind: Any, matrices: set[int]) -> Any:
    defined = definitions(_MUON.format(kind=kind.__name__), "muon")
    defined["matrices"] = matrices
    return defined[f"MuonBeside{kind.__name__}"]


def _muon_patch(root: Any, found: RepeatedBlocks, code: str, kind: Any) -> str:
    frame = next(callers(), None)
    blocks = found.expression(model_name(root, frame))
    return (
        before_training(frame)
        + _MATRICES
        + code
        + f"matrices = matrices_of({blocks})\n"
        + assignments(kind, f"MuonBeside{kind.__name__}")
    )
