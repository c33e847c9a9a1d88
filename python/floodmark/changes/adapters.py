"""Adapters beside frozen weights: `adapters=lora:16`, `adapters=dora:16`, `adapters=qlora:16`.

When the program makes an optimizer of the parameters of a model, these are frozen, the `Linear` of
the repeated blocks get two matrices of low rank each, and the optimizer gets those. At the end the
model and the optimizer have their parameters again, with the weights of the start; those that were
in 4 bits have the values that 4 bits have left. Sees: the constructors of optimizers.
`adapter_code.py` has the code.
"""

from __future__ import annotations

import importlib
import weakref
from collections import Counter
from functools import partial, wraps
from typing import Any

from floodmark import torch_private
from floodmark.changes.adapter_code import code_of
from floodmark.changes.change import Change, PicklableFunction, definitions, is_installed
from floodmark.changes.optimizer_parameters import listed, model_of, replaced, tensors_in
from floodmark.changes.pasted_code import before_training, callers, model_name
from floodmark.changes.reentrant_checkpoints import watch_checkpoints
from floodmark.changes.repeated_blocks import RepeatedBlocks, repeated_blocks

_NAMES = ("lora_a", "lora_b", "magnitude")

_NEEDS_GRADIENT = (
    "a checkpoint with `use_reentrant=True` needs an input with a gradient, which "
    "frozen embeddings do not give: use `use_reentrant=False`"
)


class Adapters(Change):
    """Trains matrices of low rank beside the weights of the repeated blocks."""

    name = "adapters"
    numerics = "training"

    def __init__(self, argument: str = "") -> None:
        super().__init__(argument)
        self._kind, _, rank = argument.partition(":")
        self._rank = int(rank)
        self.slows = self._kind != "lora"

    def attach(self, torch: Any) -> None:
        self._torch = torch
        #: What takes the place of a parameter, by its id; nothing, where it is frozen.
        self._instead: dict[int, tuple[weakref.ref[Any], list[weakref.ref[Any]]]] = {}
        base = torch.optim.Optimizer
        init = base.__init__

        @wraps(init)
        def changed(optimizer: Any, params: Any, *args: Any, **kwargs: Any) -> None:
            params = listed(torch, params)
            adapted = params if torch.is_tensor(params) else self._adapted(params)
            init(optimizer, adapted, *args, **kwargs)
            if adapted is not params:
                self._restore_groups_at_exit(optimizer, params)

        self.replace(base, "__init__", changed)
        # What is left of a step then goes on without the embeddings.
        watch_checkpoints(self, torch, lambda: self.give_up(_NEEDS_GRADIENT))

    def _adapted(self, params: Any) -> Any:
        """The same with adapters in place of what they belong to."""
        try:
            if not self.target:
                self._adapt_model_of(tensors_in(params))
            given = set(map(id, tensors_in(params)))
            return replaced(params, lambda one: self._in_place_of(one, given))
        except Exception as error:
            self.reason = f"it failed: {error!r}"
            return params

    def _in_place_of(self, parameter: Any, given: set[int]) -> list[Any]:
        reference, adapters = self._instead.get(id(parameter), (None, []))
        if reference is None or reference() is not parameter:
            return [parameter]
        alive = [one() for one in adapters]
        return [one for one in alive if one is not None and id(one) not in given]

    def _restore_groups_at_exit(self, optimizer: Any, params: Any) -> None:
        groups = params if isinstance(params[0], dict) else [params]
        before = [[weakref.ref(one) for one in tensors_in(group)] for group in groups]
        reference = weakref.ref(optimizer)

        def restore() -> None:
            found: Any = reference()
            for group, references in zip(getattr(found, "param_groups", []), before, strict=False):
                alive = [one() for one in references]
                for one in group["params"]:
                    if all(one is not other for other in alive):
                        found.state.pop(one, None)
                group["params"] = [one for one in alive if one is not None]

        self.on_exit(restore)

    def _adapt_model_of(self, given: list[Any]) -> None:
        torch = self._torch
        root = model_of(torch, given)
        self.reason = self._unsuited(root)
        if self.reason:
            return
        found = repeated_blocks(torch, root)
        if found is None:
            self.reason = f"`{type(root).__name__}` has no repeated blocks"
            return
        parameters = {one for block in found.blocks for one in block.parameters()}
        trained = sum(one.numel() for one in parameters if one.requires_grad)
        if 2 * trained < sum(one.numel() for one in parameters):
            self.reason = f"most parameters of `{found.kind}` are frozen already"
            return
        parameters.clear()
        code = code_of(self._kind)
        defined = definitions(code, "adapters")
        defined["adapted"] = PicklableFunction(code, "adapted")
        linears = defined["linears_of"](found.blocks)
        if not linears:
            self.reason = f"`{found.kind}` has no `Linear`"
            return
        counts = Counter(type(one).__name__ for one in linears)
        self._apply(root, linears, defined["add_adapters"])
        self._say(root, found, counts, code)

    def _unsuited(self, root: Any) -> str:
        """Why a model gets no adapters; empty where it may."""
        if root is None:
            return "no module has the parameters of the optimizer"
        parallel = self._torch.nn.parallel.DistributedDataParallel
        is_distributed = any(isinstance(one, parallel) for one in root.modules())
        if is_distributed or any(map(torch_private.is_sharded, root.parameters())):
            return "the model is distributed already"
        if self._kind == "qlora" and not is_installed("bitsandbytes"):
            return "weights in 4 bits need `bitsandbytes`, which is not installed"
        return ""

    def _say(self, root: Any, found: RepeatedBlocks, counts: Counter[str], code: str) -> None:
        kinds = ", ".join(f"{count} × {kind}" for kind, count in counts.items())
        frame = next(callers(), None)
        model = model_name(root, frame)
        self.target = f"{kinds} in {found.described(len(found.blocks))}"
        self.patch = (
            before_training(frame)
            + code
            + f"add_adapters({model}, linears_of({found.expression(model)}), rank={self._rank})\n"
        )

    def _apply(self, root: Any, linears: list[Any], add_adapters: Any) -> None:
        trained = [weakref.ref(one) for one in root.parameters() if one.requires_grad]
        weights = [weakref.ref(one.weight) for one in linears]
        self._instead = {id(one()): (one, []) for one in trained}
        handles: list[tuple[weakref.ref[Any], Any]] = []
        try:
            added = add_adapters(root, linears, self._rank)
        except Exception:
            _remove(handles, trained)
            raise
        for weight, (linear, handle) in zip(weights, added, strict=True):
            own = torch_private.parameters(linear)
            adapters = [weakref.ref(own[name]) for name in _NAMES if name in own]
            self._instead[id(weight())][1].extend(adapters)
            handles.append((weakref.ref(linear), handle))
        if self._kind == "qlora":
            # Their weights are empty, so they keep no memory alive.
            put_back = partial(_put_whole, weakref.ref(root), linears, [one for one, _ in handles])
            self.on_exit(put_back)
        self.on_exit(lambda: _remove(handles, trained))

    def nothing_found(self) -> str:
        return "the program makes no optimizer"


def _put_whole(
    reference: weakref.ref[Any], linears: list[Any], compressed: list[weakref.ref[Any]]
) -> None:
    """Give a model its `Linear` back; their weights have the values that 4 bits have left."""
    dequantize = importlib.import_module("bitsandbytes.functional").dequantize_4bit
    whole = {id(one()): linear for one, linear in zip(compressed, linears, strict=True)}
    root = reference()
    for parent in [] if root is None else list(root.modules()):
        children: dict[str, Any] = torch_private.children(parent)
        for name, child in children.items():
            linear = whole.get(id(child))
            if linear is None:
                continue
            if not linear.weight.numel():
                weight = dequantize(child.weight.data, child.weight.quant_state)
                is_transposed = type(linear).__name__ == "Conv1D"
                linear.weight.data = weight.T.contiguous() if is_transposed else weight
            setattr(parent, name, linear.train(child.training))


def _remove(handles: list[tuple[weakref.ref[Any], Any]], trained: list[weakref.ref[Any]]) -> None:
    """Leave a model as it was, with the weights of the start."""
    for reference, handle in handles:
        handle.remove()
        linear = reference()
        for name in _NAMES:
            if linear is not None and name in torch_private.parameters(linear):
                delattr(linear, name)
    for reference in trained:
        parameter = reference()
        if parameter is not None:
            parameter.requires_grad_(True)
