"""The gradients of embeddings: `embeddings=sparse` and `embeddings=frozen`.

A sparse gradient has only the rows that a batch uses. Not all optimizers take one, and a weight
that is the head's too has a dense gradient from there. A frozen embedding has no gradient and no
optimizer states: something else is trained. Where a checkpoint with `use_reentrant=True` follows,
the results of frozen embeddings get a gradient, which that needs. Sees: the embeddings of a model,
the optimizers, such checkpoints.
"""

from __future__ import annotations

import weakref
from functools import wraps
from types import FrameType
from typing import Any

from floodmark.changes.change import Change, Numerics, PicklableFunction
from floodmark.changes.pasted_code import before_training, model_name
from floodmark.changes.reentrant_checkpoints import watch_checkpoints
from floodmark.changes.repeated_blocks import indexed, joined

_SPARSE = ("SGD", "Adagrad", "SparseAdam")

_WITH_GRADIENT = """
def with_gradient(embedding, args, output):
    # a checkpoint with `use_reentrant=True` needs an input with one
    return output.requires_grad_() if torch.is_grad_enabled() else output

"""


class Embeddings(Change):
    """Gives embeddings sparse gradients, or none."""

    name = "embeddings"

    def __init__(self, argument: str = "") -> None:
        super().__init__(argument)
        self.numerics: Numerics = "training" if argument == "frozen" else "rounding"
        self._optimizers: weakref.WeakSet[Any] = weakref.WeakSet()
        self._count = 0
        #: Heads whose weight is that of an embedding.
        self._heads: list[str] = []
        #: Those that are frozen, as they are written, until their results get a gradient.
        self._frozen: list[tuple[weakref.ref[Any], str]] = []

    def attach(self, torch: Any) -> None:
        self._torch = torch
        base = torch.optim.Optimizer
        add_group = base.add_param_group

        @wraps(add_group)
        def add_param_group(optimizer: Any, group: Any) -> None:
            add_group(optimizer, group)
            self._optimizers.add(optimizer)

        self.replace(base, "add_param_group", add_param_group)
        if self.argument == "frozen":
            watch_checkpoints(self, torch, self._give_results_a_gradient)
        else:
            for name in ("clip_grad_norm_", "clip_grad_value_"):
                self._refuse_clipping(torch.nn.utils, name)

    def _refuse_clipping(self, utils: Any, name: str) -> None:
        original = getattr(utils, name)

        @wraps(original)
        def refusing(*args: Any, **kwargs: Any) -> Any:
            if self.target:
                weights = [one for one in self._optimizers for one in _parameters(one)]
                for weight in weights:
                    if weight.grad is not None and weight.grad.is_sparse:
                        weight.grad = weight.grad.to_dense()
                self.give_up("the program clips gradients, which torch does for dense ones alone")
            return original(*args, **kwargs)

        self.replace(utils, name, refusing)

    def prepare(self, root: Any, frame: FrameType | None) -> None:
        torch = self._torch
        if self.reason and not self.target and not self._count:
            self.reason = ""
        kinds = (torch.nn.Embedding, torch.nn.EmbeddingBag)
        found = [(name, one) for name, one in root.named_modules() if isinstance(one, kinds)]
        if not found:
            self.reason = self.reason or f"`{type(root).__name__}` has no embeddings"
            return
        uses: dict[int, list[str]] = {}
        for name, weight in root.named_parameters(remove_duplicate=False):
            uses.setdefault(id(weight), []).append(name)
        model, place = model_name(root, frame), before_training(frame)
        lines: list[str] = []
        apply = self._freeze if self.argument == "frozen" else self._make_sparse
        for name, one in found:
            others = [use for use in uses[id(one.weight)] if use != joined(name, "weight")]
            if one.weight.requires_grad and apply(root, one, others):
                written = indexed(joined(model, name))
                lines.append(self._line(written))
                self._frozen.append((weakref.ref(one), written))
        if lines:
            self._count += len(lines)
            heads = f", with {' and '.join(self._heads)}" if self._heads else ""
            self.target = f"{self._count} × `{type(found[0][1]).__name__}`{heads}"
            self.patch = (self.patch or place) + "".join(lines)

    def _line(self, module: str) -> str:
        if self.argument == "frozen":
            return f"{module}.weight.requires_grad_(False)\n"
        return f"{module}.sparse = True\n"

    def _freeze(self, root: Any, one: Any, others: list[str]) -> bool:
        trained = [weight for weight in root.parameters() if weight.requires_grad]
        if all(weight is one.weight for weight in trained):
            self.reason = f"`{type(root).__name__}` has nothing else to train"
            return False
        weight = one.weight
        weight.requires_grad_(False)
        self.on_exit(lambda: weight.requires_grad_(True))
        heads = [f"`{other.removesuffix('.weight')}`" for other in others]
        self._heads += [head for head in heads if head not in self._heads]
        return True

    def _give_results_a_gradient(self) -> None:
        if not self._frozen:
            return
        hook = PicklableFunction(_WITH_GRADIENT, "with_gradient")
        self.patch += "" if "def with_gradient" in self.patch else _WITH_GRADIENT
        for reference, written in self._frozen:
            embedding = reference()
            if embedding is not None:
                self.on_exit(embedding.register_forward_hook(hook).remove)
                self.patch += f"{written}.register_forward_hook(with_gradient)\n"
        self._frozen.clear()

    def _make_sparse(self, root: Any, one: Any, others: list[str]) -> bool:
        self.reason = self._dense_reason(root, one, others) or self.reason
        if self._dense_reason(root, one, others):
            return False
        self.replace(one, "sparse", True)
        return True

    def _dense_reason(self, root: Any, one: Any, others: list[str]) -> str:
        """Why the gradient of an embedding stays dense; empty where it need not."""
        kind = type(one).__name__
        if one.sparse:
            return f"`{kind}` has `sparse=True` already"
        if others:
            return f"the weight of `{kind}` is that of `{others[0].removesuffix('.weight')}` too"
        if one.scale_grad_by_freq or getattr(one, "mode", "") == "max":
            return f"`{kind}` has an option that torch computes for dense gradients alone"
        if isinstance(root, self._torch.nn.parallel.DistributedDataParallel):
            return "`DistributedDataParallel` was made for dense gradients"
        optimizers = [
            optimizer
            for optimizer in self._optimizers
            if any(weight is one.weight for weight in _parameters(optimizer))
        ]
        if not optimizers:
            return "the model was called before an optimizer of its embeddings was made"
        return next(filter(None, map(_refusal_of, optimizers)), "")

    def nothing_found(self) -> str:
        return self.reason or super().nothing_found()


def _parameters(optimizer: Any) -> list[Any]:
    return [one for group in optimizer.param_groups for one in group["params"]]


def _refusal_of(optimizer: Any) -> str:
    """Why an optimizer takes no sparse gradients; empty where it does."""
    kind = type(optimizer)
    if kind.__name__ not in _SPARSE or not kind.__module__.startswith("torch.optim"):
        return f"`{kind.__name__}` takes no sparse gradients; `SGD` and `Adagrad` do"
    for option in ("momentum", "weight_decay", "fused", "differentiable"):
        if any(group.get(option) for group in optimizer.param_groups):
            return f"`{kind.__name__}` with `{option}` takes no sparse gradients"
    return ""
