"""The code of `chunked-loss=cce`: the head waits as with `head`, another library has the loss.

Of Cut Cross Entropy only `linear_cross_entropy` is used, which all of its releases have. So it
suits every model whose head may wait, and not only the models of transformers that the library
knows.
"""

from __future__ import annotations

from floodmark.changes.deferred_head import head_code

_SUMS = '''
from cut_cross_entropy import linear_cross_entropy

def suits_cce(call, later, smoothing):
    is_half = call.dtype in (torch.bfloat16, torch.float16)
    is_cast = all(operator.overloadpacket is ATEN._to_copy for operator, _, _ in later)
    return is_half and is_cast and call.bias is None and not smoothing

def sums_of_head(tensors, dtype, operations, target, ignored, smoothing, wanted):
    """The sum of the losses, and its gradients of hidden states and weight."""
    leaves = [one.detach().requires_grad_(of) for one, of in zip(tensors[:2], wanted)]
    with torch.enable_grad():
        moved, where, _ = rows_of(leaves[0], operations)
        rows = moved.movedim(where, -1).flatten(0, -2).to(dtype)
        total = linear_cross_entropy(
            rows, leaves[1].to(dtype), target.flatten(), ignore_index=ignored, reduction="sum"
        )
    needed = [one for one in leaves if one.requires_grad]
    found = iter(torch.autograd.grad(total, needed) if needed else ())
    return total.detach(), [next(found) if of else None for of in wanted]
'''

CCE_HEAD = head_code(_SUMS, " or not suits_cce(call, moved[2], label_smoothing)")
