"""Cross entropy in chunks: `chunked-loss=8`.

`F.cross_entropy` keeps the log-probabilities of all tokens for the backward pass, in fp32 under
autocast. Here each chunk of rows is computed alone, with its gradient, so only the gradient of the
logits is kept, in their own type. Logits that the program has made before, and copies of them in
fp32 (`logits.float()`), stay whole.
"""

from __future__ import annotations

from functools import wraps
from typing import Any

from floodmark.changes.change import Change, defined_by

#: With fewer logits there is nothing to gain.
_LEAST_NUMBER = 1 << 20

_PATCH = """\
class ChunkedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, target, ignore_index, smoothing, is_mean, chunks):
        is_used = target != ignore_index
        scale = is_used.sum().clamp(min=1).float() if is_mean else 1.0
        gradient = torch.empty_like(logits)
        total = torch.zeros((), device=logits.device)
        rows = -(-logits.shape[0] // chunks)
        for start in range(0, logits.shape[0], rows):
            part, used = slice(start, start + rows), is_used[start : start + rows, None]
            right = target[part, None].where(used, 0)
            logs = logits[part].float().log_softmax(-1)
            losses = -(1 - smoothing) * logs.gather(-1, right)
            if smoothing:
                losses -= smoothing * logs.mean(-1, keepdim=True)
            total += losses.where(used, 0.0).sum()
            wrong = logs.exp_().sub_(smoothing / logits.shape[-1])
            wrong.scatter_add_(-1, right, torch.full_like(losses, smoothing - 1))
            gradient[part] = wrong.mul_(used / scale)
        ctx.save_for_backward(gradient)
        return total / scale

    @staticmethod
    def backward(ctx, factor):
        (gradient,) = ctx.saved_tensors
        return gradient.mul_(factor), None, None, None, None, None
"""

_USE = """
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


class ChunkedLoss(Change):
    """Computes cross entropy in chunks of rows."""

    name = "chunked-loss"
    numerics = "rounding"

    def attach(self, torch: Any) -> None:
        chunked = defined_by(_PATCH, "ChunkedCrossEntropy")
        functional = torch.nn.functional
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
                and input.numel() >= _LEAST_NUMBER
            )
            if not is_simple:
                if input.numel() >= _LEAST_NUMBER:
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
            self._applied(input)
            is_mean = reduction == "mean"
            return chunked.apply(
                input, target, ignore_index, label_smoothing, is_mean, int(self.argument)
            )

        self.replace(functional, "cross_entropy", cross_entropy)

    def _applied(self, logits: Any) -> None:
        rows, classes = logits.shape
        kind = str(logits.dtype).removeprefix("torch.")
        self.target = f"{rows} × {classes} logits in {kind}"
        use = _USE.format(least=_LEAST_NUMBER, chunks=self.argument)
        self.patch = "# before the first step\n" + _PATCH + use

    def nothing_found(self) -> str:
        return "no `cross_entropy` of a million logits or more was computed"
