"""Cross entropy in chunks: `chunked-loss=8`, `chunked-loss=head`, `=liger` and `=cce`.

With a number, the cross entropy alone: `F.cross_entropy` keeps the log-probabilities of all tokens
for the backward pass, in fp32 under autocast. Here each chunk of rows is computed alone, with its
gradient, so only the gradient of the logits is kept, in their own type. Logits that the program has
made before, and copies of them in fp32 (`logits.float()`), stay whole.

With `head`, the last `Linear` too: logits are never whole, forward and backward. The other two let
a library compute that, where it is installed: Liger for the models that it knows.
"""

from __future__ import annotations

import importlib
import inspect
from functools import wraps
from types import FrameType
from typing import Any

from floodmark.changes.cce_head import CCE_HEAD
from floodmark.changes.change import Change, defined_by, definitions, is_installed
from floodmark.changes.deferred_head import HEAD, LEAST_NUMBER, LOSS_OF_CHUNK
from floodmark.changes.pasted_code import before_training, calling_line, model_name
from floodmark.changes.repeated_blocks import indexed, joined, repeated_blocks
from floodmark.changes.repeated_choices import choice
from floodmark.changes.replaced_methods import bind, has_method_of_its_own

_LOSS = (
    LOSS_OF_CHUNK
    + """
class ChunkedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, target, ignore_index, smoothing, is_mean, chunks):
        total = torch.zeros((), device=logits.device)
        ctx.count = (target != ignore_index).sum() if is_mean else torch.ones_like(total)
        gradient = torch.empty_like(logits)
        rows = -(-logits.shape[0] // chunks)
        for start in range(0, logits.shape[0], rows):
            part = slice(start, start + rows)
            loss, wrong = loss_of_chunk(logits[part], target[part], ignore_index, smoothing)
            total, gradient[part] = total + loss, wrong
        ctx.save_for_backward(gradient)
        dtype = torch.float32 if torch.is_autocast_enabled(logits.device.type) else logits.dtype
        return (total / ctx.count).to(dtype)

    @staticmethod
    def backward(ctx, factor):
        (gradient,) = ctx.saved_tensors
        return gradient.mul_(factor / ctx.count.clamp(min=1)), None, None, None, None, None
"""
)

_USE_LOSS = """
def chunked_cross_entropy(input, target, *args, **kwargs):
    options = {{name: value for name, value in kwargs.items() if value is not None}}
    reduction = options.get("reduction", "mean")
    is_simple = (
        not args
        and options.keys() <= {{"ignore_index", "label_smoothing", "reduction"}}
        and reduction in ("mean", "sum")
        and input.dim() == 2
        and input.numel() >= {least}
        and input.requires_grad
        and not target.is_floating_point()
    )
    if not is_simple:
        return whole_cross_entropy(input, target, *args, **kwargs)
    ignored, smoothing = options.get("ignore_index", -100), options.get("label_smoothing", 0.0)
    return ChunkedCrossEntropy.apply(
        input, target, ignored, smoothing, reduction == "mean", {chunks}
    )

whole_cross_entropy = torch.nn.functional.cross_entropy
torch.nn.functional.cross_entropy = chunked_cross_entropy
"""

_USE_HEAD = """
for head in [{heads}]:
    head.forward = types.MethodType(deferred, head)
"""

_LIGER = """\
from liger_kernel.transformers import {function}

{function}(model={model}, fused_linear_cross_entropy=True{others})
"""

#: The packages of libraries.
_PACKAGES = {"liger": "liger_kernel", "cce": "cut_cross_entropy"}

#: Why logits that waited are computed for a loss.
_UNSUITED = {
    "head": "its cross entropy has weights, no reduction, or other shapes",
    "cce": "its loss is not the plain cross entropy of a head without bias, in bf16 or fp16",
}

#: What Liger could replace too, which is not asked for.
_OTHER_KERNELS = ("rope", "rms_norm", "layer_norm", "swiglu", "geglu", "cross_entropy")


class ChunkedLoss(Change):
    """Computes cross entropy, or the last `Linear` and cross entropy, in chunks of rows."""

    name = "chunked-loss"
    numerics = "rounding"
    #: Why no logits waited, where some were computed.
    _unsuited = ""

    def attach(self, torch: Any) -> None:
        self._torch = torch
        if self.argument.isdigit():
            self._replace_loss(torch.nn.functional)

    def prepare(self, root: Any, frame: FrameType | None) -> None:
        package = _PACKAGES.get(self.argument)
        if package is not None and not is_installed(package):
            self.reason = f"`{package}` is not installed"
        elif self.argument == "liger":
            self._use_liger(root, frame)
        elif self.argument in _UNSUITED:
            self._defer_heads(root, frame)

    def end(self) -> None:
        # Heads wait no more, but stay: a backward pass may compute again what they have computed.
        if self.argument not in _UNSUITED:
            super().end()

    def nothing_found(self) -> str:
        return self._unsuited or "no `cross_entropy` of a million logits or more was computed"

    # The loss alone.

    def _replace_loss(self, functional: Any) -> None:
        chunked = defined_by(_LOSS, "ChunkedCrossEntropy")
        original = functional.cross_entropy

        @wraps(original)
        def cross_entropy(
            input: Any,
            target: Any,
            weight: Any = None,
            size_average: Any = None,
            ignore_index: int = -100,
            reduce: Any = None,
            reduction: str = "mean",
            label_smoothing: float = 0.0,
        ) -> Any:
            is_simple = (
                weight is None
                and size_average is None
                and reduce is None
                and reduction in ("mean", "sum")
                and input.dim() == 2
                and not target.is_floating_point()
                and input.requires_grad
                and input.numel() >= LEAST_NUMBER
            )
            if not is_simple:
                if input.numel() >= LEAST_NUMBER:
                    self.reason = "its cross entropy has weights, no reduction, or other shapes"
                return original(
                    input,
                    target,
                    weight,
                    size_average,
                    ignore_index,
                    reduce,
                    reduction,
                    label_smoothing,
                )
            self.target = _described(input)
            use = _USE_LOSS.format(least=LEAST_NUMBER, chunks=self.argument)
            self.patch = "# before the first step\n" + _LOSS + use
            is_mean = reduction == "mean"
            return chunked.apply(
                input, target, ignore_index, label_smoothing, is_mean, int(self.argument)
            )

        self.replace(functional, "cross_entropy", cross_entropy)

    # The head and the loss.

    def _defer_heads(self, root: Any, frame: FrameType | None) -> None:
        torch = self._torch
        heads = dict(heads_of(torch, root))
        if not heads:
            self._unsuited = f"no `Linear` of `{type(root).__name__}` may compute its logits later"
        elif self.argument == "cce" and not all(one.weight.is_cuda for one in heads.values()):
            self.reason = "Cut Cross Entropy needs a GPU"
        if self.reason or not heads:
            return
        code = CCE_HEAD if self.argument == "cce" else HEAD
        names = definitions(code, self.text)
        model = model_name(root, frame)
        written = ", ".join(indexed(joined(model, name)) for name in heads)
        patch = before_training(frame) + code + _USE_HEAD.format(heads=written)
        self._watch(names, patch)
        for head in heads.values():
            bind(self, head, "forward", names["deferred"])

    def _watch(self, names: dict[str, Any], patch: str) -> None:
        """See which logits the loss uses without computing them, and which are computed."""
        loss_of_head, call, deferred = names["loss_of_head"], names["Call"], names["deferred"]
        compute = call.compute
        #: Whether all logits are used while the model is trained, and while it is not.
        is_used = {True: False, False: False}
        loss_reason = ""

        @wraps(loss_of_head)
        def watched_loss(logits: Any, *args: Any, **kwargs: Any) -> Any:
            nonlocal loss_reason
            described = _described(logits)
            loss = loss_of_head(logits, *args, **kwargs)
            if loss is None:
                loss_reason = _UNSUITED[self.argument]
            elif not self.reason:
                self.target, self.patch = described, patch
            return loss

        @wraps(compute)
        def watched_compute(one: Any) -> Any:
            is_training = one.head.training
            is_used[is_training] = True
            if is_training and not self.reason:
                line = calling_line()
                where = f" in {line}" if line else ""
                self.give_up(loss_reason or f"the program uses all logits{where}")
            return compute(one)

        @wraps(deferred)
        def watched_head(head: Any, hidden: Any) -> Any:
            if choice(id(head), bool(self.reason) or is_used[head.training]):
                return type(head).forward(head, hidden)
            logits = deferred(head, hidden)
            if type(logits) is not names["Logits"] and logits.numel() >= LEAST_NUMBER:
                self._unsuited = "its head is compiled, sharded by rows, or of another type"
            return logits

        call.compute = watched_compute
        names["loss_of_head"], names["deferred"] = watched_loss, watched_head

    # Libraries.

    def _use_liger(self, root: Any, frame: FrameType | None) -> None:
        """Have Liger replace the forward of a model of transformers."""
        found = [
            (name, one)
            for name, one in root.named_modules()
            if hasattr(one, "get_output_embeddings") and hasattr(one, "config")
        ]
        if not found:
            self.reason = f"`{type(root).__name__}` is no model of transformers"
            return
        name, model = found[0]
        kernels = importlib.import_module("liger_kernel.transformers")
        kind = model.config.model_type
        function = f"apply_liger_kernel_to_{kind}"
        apply = getattr(kernels, function, None)
        if apply is None:
            self.reason = f"Liger has no kernels for `{kind}`"
            return
        taken = inspect.signature(apply).parameters
        others = {name: False for name in _OTHER_KERNELS if name in taken}
        self._keep_forward(model)
        apply(model=model, fused_linear_cross_entropy=True, **others)
        self.target = f"`{type(model).__name__}`"
        options = "".join(f", {name}=False" for name in others)
        written = indexed(joined(model_name(root, frame), name))
        liger = _LIGER.format(function=function, model=written, others=options)
        self.patch = before_training(frame) + liger

    def _keep_forward(self, model: Any) -> None:
        """Put the forward of a model back at the end."""
        before = vars(model).get("forward")

        def restore() -> None:
            vars(model).pop("forward", None)
            if before is not None:
                model.forward = before

        self.on_exit(restore)


def _described(logits: Any) -> str:
    """`2048 × 151936 logits in bfloat16`."""
    *rows, classes = logits.shape
    count = 1
    for one in rows:
        count *= one
    return f"{count} × {classes} logits in {str(logits.dtype).removeprefix('torch.')}"


def heads_of(torch: Any, root: Any) -> list[tuple[str, Any]]:
    """The modules that compute logits, with their names: what a model of transformers says, or
    the widest of the `Linear` outside of repeated blocks."""
    linear = torch.nn.Linear
    named = [(name, one) for name, one in root.named_modules() if isinstance(one, linear)]
    said = [
        one.get_output_embeddings()
        for one in root.modules()
        if hasattr(one, "get_output_embeddings")
    ]
    if said:
        found = [(name, one) for name, one in named if any(one is head for head in said)]
    else:
        repeated = repeated_blocks(torch, root)
        blocks = [] if repeated is None else repeated.blocks
        inner = {id(one) for block in blocks for one in block.modules()}
        outside = [(name, one) for name, one in named if id(one) not in inner]
        widest = max((one.out_features for _, one in outside), default=0)
        found = [(name, one) for name, one in outside if one.out_features == widest]
    return [
        (name, one)
        for name, one in found
        if type(one).forward is linear.forward
        # A weight that is computed whenever it is read is read as often as before.
        and not hasattr(one, "parametrizations")
        and not has_method_of_its_own(one, "forward")
    ]
