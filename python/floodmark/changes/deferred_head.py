"""The code of `chunked-loss=head`: the last `Linear` and the cross entropy in chunks of tokens.

The head returns logits that wait (`waiting_logits.py`). `F.cross_entropy` computes chunks of them,
each with its gradient. It is plain torch code, which is printed as a patch, and which runs.
"""

from __future__ import annotations

from floodmark.changes.waiting_logits import LOGITS

#: What both kinds of chunked losses have: the losses of some rows, and their gradient.
LOSS_OF_CHUNK = """\
def loss_of_chunk(logits, target, ignore_index, smoothing):
    used = (target != ignore_index)[:, None]
    right = target[:, None].where(used, 0)
    logs = logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(-1)
    losses = -(1 - smoothing) * logs.gather(-1, right)
    if smoothing:
        losses -= smoothing * logs.mean(-1, keepdim=True)
    gradient = logs.exp_().sub_(smoothing / logits.shape[-1])
    gradient.scatter_add_(-1, right, torch.full_like(losses, smoothing - 1))
    return losses.where(used, 0.0).sum(), gradient.mul_(used)
"""

#: The losses of the rows of a head, in chunks.
_SUMS = '''
CHUNK = 1 << 25  # numbers of a chunk of logits: 128 MiB in fp32
FEW = 16  # more sums than that in 16 bits would lose small terms

def sums_of_head(tensors, dtype, operations, target, ignored, smoothing, wanted):
    """The sum of the losses, and its gradients of hidden states, weight and bias."""
    hidden, weight, bias = tensors
    with torch.enable_grad():
        leaf = hidden.detach().requires_grad_()
        moved, where, later = rows_of(leaf, operations)
        moved = moved.movedim(where, -1).flatten(0, -2)
    if dtype != torch.float64 and later and later[-1][2].get("dtype") == torch.float32:
        later.pop()  # a chunk of the loss is computed in fp32 anyway
    rows, target, matrix = moved.detach(), target.flatten(), weight.detach().to(dtype)
    offset = None if bias is None else bias.detach().to(dtype)
    chunks = max(8, -(-rows.shape[0] * weight.shape[0] // CHUNK))
    size = max(1, -(-rows.shape[0] // chunks))
    wide = torch.promote_types(weight.dtype, torch.float32)
    of_rows = torch.empty_like(rows) if wanted[0] else None
    of_weight = of_bias = None
    if wanted[1]:
        of_weight = torch.zeros_like(weight, dtype=wide if chunks > FEW else weight.dtype)
    if wanted[2]:
        of_bias = torch.zeros_like(bias, dtype=wide)
    total = torch.zeros((), dtype=wide, device=rows.device)
    for start in range(0, rows.shape[0], size):
        part = slice(start, start + size)
        some = rows[part].to(dtype)
        first = last = torch.nn.functional.linear(some, matrix, offset)
        with torch.enable_grad():
            first.requires_grad_(bool(later))
            for operator, args, kwargs in later:
                last = operator(last, *args, **kwargs)
        loss, gradient = loss_of_chunk(last.detach(), target[part], ignored, smoothing)
        total += loss
        if not any(wanted):
            continue
        gradient = gradient.to(last.dtype)
        if later:
            (gradient,) = torch.autograd.grad(last, first, gradient)
        del first, last
        if wanted[0]:
            of_rows[part] = gradient @ matrix
        if wanted[1] and of_weight.dtype == dtype:
            torch.addmm(of_weight, gradient.t(), some, out=of_weight)
        elif wanted[1]:
            of_weight += gradient.t() @ some
        if wanted[2]:
            of_bias += gradient.sum(0, dtype=wide)
        del gradient
    of_hidden = torch.autograd.grad(moved, leaf, of_rows)[0] if wanted[0] else None
    found = of_hidden, of_weight, of_bias
    return total, [one if one is None else one.to(of.dtype) for one, of in zip(found, tensors)]
'''

#: The loss of logits that are not computed.
_LOSS = '''
class HeadLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, target, ignored, smoothing, reduction):
        call, device = logits.step.call, target.device.type
        tensors = call.hidden, call.weight, call.bias
        ctx.save_for_backward(*tensors, target)
        ctx.head, ctx.of_head, ctx.watches = call.head, call.gradients, call.watches
        ctx.options = {
            "ignore_index": ignored, "label_smoothing": smoothing, "reduction": reduction
        }
        wanted = [logits.requires_grad and one is not None and one.requires_grad for one in tensors]
        ctx.how, ctx.wanted = (call.dtype, logits.step.operations(), ignored, smoothing), wanted
        is_kept = any(wanted) and not is_checkpointed()
        total, gradients = HeadLoss.sums(ctx, tensors, target, wanted if is_kept else [False] * 3)
        ctx.gradients = gradients if is_kept else None
        ctx.count = (target != ignored).sum() if reduction == "mean" else torch.ones_like(total)
        dtype = logits.dtype
        if torch.is_autocast_enabled(device) and dtype != torch.float64:
            dtype = torch.float32
        return (total / ctx.count).to(dtype)

    @staticmethod
    def sums(ctx, tensors, target, wanted):
        dtype, operations, ignored, smoothing = ctx.how
        is_freed = not tensors[1].untyped_storage().size()  # by FSDP2, after a head of its own
        if is_freed:
            ctx.head.unshard()
        with torch.autocast(target.device.type, enabled=False):
            found = sums_of_head(
                tensors, dtype, operations, target, ignored, smoothing, wanted
            )
        if is_freed:
            ctx.head.reshard()
        return found

    @staticmethod
    def backward(ctx, factor):
        *tensors, target = ctx.saved_tensors
        if torch.is_grad_enabled() or any(ctx.watches):
            return HeadLoss.gradient_of_logits(ctx, tensors, target, factor), *[None] * 4
        gradients, ctx.gradients = ctx.gradients, None
        if gradients is None:  # the graph was retained, or the forward pass was checkpointed
            _, gradients = HeadLoss.sums(ctx, tensors, target, ctx.wanted)
        scale = factor / ctx.count.clamp(min=1)
        ctx.of_head.append([one if one is None else one.mul_(scale) for one in gradients])
        return (None,) * 5

    @staticmethod
    def gradient_of_logits(ctx, tensors, target, factor):
        """Of all logits: where the program wants it, or derivatives of it."""
        is_derived = torch.is_grad_enabled()
        with torch.enable_grad():
            logits = linear(*tensors, ctx.how[0])
            for operator, args, kwargs, _, _ in ctx.how[1]:
                logits = operator(logits, *args, **kwargs)
            logits = logits if is_derived else logits.detach().requires_grad_()
            loss = torch.nn.functional.cross_entropy(logits, target, **ctx.options)
        return torch.autograd.grad(loss, logits, factor, create_graph=is_derived)[0]

def is_checkpointed():
    """Whether hidden states are computed again; gradients would be live until then."""
    find = getattr(torch._C._autograd, "_top_saved_tensors_default_hooks", None)
    hooks = find and find(False)
    return getattr(hooks and hooks[0], "__module__", "") == "torch.utils.checkpoint"

def is_from_head(logits):
    """Whether the gradient of logits goes to the head through torch's own functions alone."""
    nodes = [logits.grad_fn]
    while nodes:
        node = nodes.pop()
        if getattr(node, "gradients", None) is logits.step.call.gradients:
            return True
        is_own = not isinstance(node, torch.autograd.function.BackwardCFunction)
        if node is not None and (is_own or type(node).__name__ == "_DDPSinkBackward"):
            nodes.extend(following for following, _ in node.next_functions)
    return False

def loss_of_head(
    logits, target, weight=None, size_average=None, ignore_index=-100, reduce=None,
    reduction="mean", label_smoothing=0.0,
):
    """The loss of logits that are not computed; None where that is not possible."""
    if not isinstance(logits, Logits) or logits.step.value is not None:
        return None
    call, shape = logits.step.call, logits.shape
    is_simple = (
        weight is size_average is reduce is None
        and reduction in ("mean", "sum")
        and logits.dim() > 1
        and not target.is_floating_point()
        and target.device == logits.device
        and target.shape == shape[:1] + shape[2:]
        and (not logits.requires_grad or is_from_head(logits))
        and (call.weight.untyped_storage().size() or hasattr(call.head, "unshard"))
        and call.now() == call.versions
    )
    moved = is_simple and rows_of(call.hidden.detach().to("meta"), logits.step.operations())
    if not moved or moved[1] != 1{or_unsuited}:
        return None
    return HeadLoss.apply(logits, target, ignore_index, label_smoothing, reduction)

def deferred(head, hidden):
    kind, weight, bias = hidden.device.type, head.weight, head.bias
    is_cast = torch.is_autocast_enabled(kind) and hidden.dtype != torch.float64
    dtype = torch.get_autocast_dtype(kind) if is_cast else hidden.dtype
    can_wait = (
        not torch.compiler.is_compiling()
        and torch._C._functorch.peek_interpreter_stack() is None
        and hidden.dim() > 1
        and hidden.numel() // hidden.shape[-1] * head.out_features >= {least}
        and not any(hasattr(one, "placements") for one in (hidden, weight))
        and not hasattr(weight, "ds_id")  # DeepSpeed frees it after the forward of the head
        and (is_cast or weight.dtype == dtype)
    )
    if not can_wait:
        return type(head).forward(head, hidden)
    return DeferredHead.apply(hidden, weight, bias, Call(head, hidden, weight, bias, dtype))
'''

#: With fewer logits there is nothing to gain.
LEAST_NUMBER = 1 << 20


def head_code(sums: str, or_unsuited: str = "") -> str:
    """The code that lets logits wait, with the function that computes their losses."""
    loss = _LOSS.replace("{least}", str(LEAST_NUMBER)).replace("{or_unsuited}", or_unsuited)
    return LOGITS + sums + loss


HEAD = LOSS_OF_CHUNK + head_code(_SUMS)
