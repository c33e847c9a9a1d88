"""The code of `chunked-loss=head`: the last `Linear` and the cross entropy in chunks of tokens.

The head returns logits that are not computed yet. They remember the hidden states and the simple
operations that follow; `F.cross_entropy` then computes chunks of them, each with its gradient. Any
other operation computes them as the program does, so a program means what it meant before. It is
plain torch code, which is printed as a patch, and which runs.
"""

from __future__ import annotations

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

#: Logits that are computed when an operator needs them.
_LOGITS = '''
import contextlib
import types
import weakref
from torch.utils._pytree import tree_leaves, tree_map

ATEN = torch.ops.aten
SAME = (ATEN.alias, ATEN.clone, ATEN.detach)
VIEWS = (ATEN.view, ATEN._unsafe_view, ATEN._reshape_alias)
MOVES = (ATEN.slice, ATEN.select, ATEN.transpose, ATEN.permute)
ARITHMETIC = (ATEN.mul, ATEN.div, ATEN.add, ATEN.sub, ATEN.neg, ATEN.tanh, ATEN.clamp)
BY_NUMBER = (ATEN._to_copy, *ARITHMETIC)
OF_MEMORY = (
    "__array__ __deepcopy__ __dlpack__ __format__ __reduce_ex__ __repr__ "
    "data_ptr numpy storage tolist untyped_storage"
).split()

def linear(hidden, weight, bias, dtype):
    with torch.autocast(hidden.device.type, enabled=False):
        offset = None if bias is None else bias.to(dtype)
        return torch.nn.functional.linear(hidden.to(dtype), weight.to(dtype), offset)

class Call:
    """A call of the head."""

    def __init__(self, head, hidden, weight, bias, dtype):
        self.head, self.hidden, self.weight, self.bias = head, hidden, weight, bias
        self.dtype, self.versions, self.steps = dtype, self.now(), []
        self.gradients = []  # of hidden, weight and bias, from the loss to the backward of the head
        self.is_watched = []  # not empty where the program wants the gradient of the logits

    def now(self):
        return [one._version for one in (self.hidden, self.weight) if not one.is_inference()]

    def compute(self):
        if self.now() != self.versions or not self.weight.untyped_storage().size():
            raise RuntimeError(
                "These logits were not computed, because only the loss used them, and the weights "
                "of the head have changed or were freed since. Use the logits before that."
            )
        return linear(self.hidden.detach(), self.weight.detach(), self.bias, self.dtype)

class Step:
    """What logits are computed from: a call of the head, or earlier logits and an operation."""

    def __init__(self, call, like, earlier=None, operation=()):
        self.call, self.like, self.earlier, self.operation = call, like, earlier, operation
        self.value = None
        call.steps.append(weakref.ref(self))

    def compute(self):
        if self.value is None and self.earlier is None:
            self.value = self.call.compute()
        elif self.value is None:
            operator, args, kwargs = self.operation
            self.value, self.earlier = operator(self.earlier.compute(), *args, **kwargs), None
        return self.value

    def operations(self):
        if self.earlier is None:
            return []
        shapes = self.earlier.like.shape, self.like.shape
        return [*self.earlier.operations(), (*self.operation, *shapes)]

    def next(self, operator, args, kwargs):
        """The step of an operation that may wait; None where it may not."""
        kind, tensors = operator.overloadpacket, tensors_in(args, kwargs)
        if kind not in (*SAME, *VIEWS, *MOVES, *BY_NUMBER) or operator._schema.is_mutable:
            return None
        if kind is ATEN._to_copy:
            dtype, device = kwargs.get("dtype", self.like.dtype), kwargs.get("device")
            if not dtype.is_floating_point or device not in (None, self.call.hidden.device):
                return None
            kwargs = {"dtype": dtype}
        for one in tensors:
            is_row = one.shape[-1:] == self.like.shape[-1:] and one.numel() == one.shape[-1]
            if isinstance(one, Logits) or one.requires_grad or not (one.numel() == 1 or is_row):
                return None
        like = operator(self.like, *mapped(lambda one: one.to("meta"), args), **kwargs)
        if tensors and like.shape != self.like.shape:
            return None
        copies = mapped(lambda one: one.clone(), args)
        later = Step(self.call, like, self, (operator, copies, kwargs))
        if self.value is not None:
            later.compute()
        return later

def tensors_in(*values):
    return [one for one in tree_leaves(values) if torch.is_tensor(one)]

def mapped(change, values):
    return tree_map(lambda one: change(one) if torch.is_tensor(one) else one, values)

def computed(values):
    return mapped(lambda one: one.step.compute() if isinstance(one, Logits) else one, values)

def hooks_without_logits():
    """Hooks for saved tensors, which may want to move memory, see no logits: they have none."""
    find = getattr(torch._C._autograd, "_top_saved_tensors_default_hooks", None)
    hooks = find and find(False)
    if not hooks:
        return contextlib.nullcontext()
    pack, unpack = hooks
    return torch.autograd.graph.saved_tensors_hooks(
        lambda one: one if isinstance(one, Logits) else (pack(one),),
        lambda one: one if isinstance(one, Logits) else unpack(*one),
    )

def is_of_torch(hook):
    """Whether a hook of FSDP, which looks at no gradient, is registered."""
    return str(getattr(hook, "func", hook).__module__).startswith("torch.distributed")

class Logits(torch.Tensor):
    """Logits that are computed when an operator needs them."""

    @staticmethod
    def __new__(cls, step):
        like, device = step.like, step.call.hidden.device
        logits = torch.Tensor._make_wrapper_subclass(
            cls,
            like.shape,
            strides=like.stride(),
            storage_offset=like.storage_offset(),
            dtype=like.dtype,
            device=device,
        )
        logits.step = step
        return logits

    @classmethod
    def __torch_function__(cls, function, kinds, args=(), kwargs=None):
        kwargs, name = kwargs or {}, getattr(function, "__name__", "")
        with torch._C.DisableTorchFunctionSubclass():
            if function is torch.nn.functional.cross_entropy:
                loss = loss_of_head(*args, **kwargs)
                if loss is not None:
                    return loss
            is_hook = name == "register_hook" and not is_of_torch(*args[1:], *kwargs.values())
            if is_hook or name == "retain_grad" or function is torch.autograd.grad:
                for one in tensors_in(args, kwargs):
                    if isinstance(one, Logits):
                        one.step.call.is_watched.append(True)
            if name in OF_MEMORY:
                args = computed(args)
            with hooks_without_logits():
                return function(*args, **kwargs)

    @classmethod
    def __torch_dispatch__(cls, operator, kinds, args=(), kwargs=None):
        kwargs = kwargs or {}
        if isinstance(args[0], Logits):
            later = args[0].step.next(operator, args[1:], kwargs)
            if later is not None:
                return Logits(later)
        logits = [one for one in tensors_in(args, kwargs) if isinstance(one, Logits)]
        if operator._schema.is_mutable:
            for step in [step() for one in logits for step in one.step.call.steps]:
                if step is not None:
                    step.compute()
        result = operator(*computed(args), **computed(kwargs))
        changed = [one for one in logits if one.step.value is result]
        return changed[0] if changed else result

class DeferredHead(torch.autograd.Function):
    @staticmethod
    def forward(ctx, hidden, weight, bias, call):
        ctx.save_for_backward(hidden, weight, bias)
        ctx.set_materialize_grads(False)
        ctx.dtype, ctx.gradients = call.dtype, call.gradients
        shape = (*hidden.shape[:-1], weight.shape[0])
        return Logits(Step(call, torch.empty(shape, dtype=call.dtype, device="meta")))

    @staticmethod
    def backward(ctx, gradient):
        found = [None, None, None, None]
        for earlier in ctx.gradients:
            for at, one in enumerate(earlier):
                found[at] = one if found[at] is None else found[at] + one
        ctx.gradients.clear()
        if gradient is not None:  # of logits that were computed
            hidden, weight, bias = ctx.saved_tensors
            with torch.autocast(hidden.device.type, enabled=False):
                rows, gradient = hidden.flatten(0, -2).to(ctx.dtype), gradient.flatten(0, -2)
                of_whole = (
                    lambda: (gradient @ weight.to(ctx.dtype)).view_as(hidden).to(hidden.dtype),
                    lambda: (gradient.t() @ rows).to(weight.dtype),
                    lambda: gradient.sum(0).to(bias.dtype),
                )
                for at, compute in enumerate(of_whole):
                    if ctx.needs_input_grad[at]:
                        found[at] = compute() if found[at] is None else found[at] + compute()
        return tuple(found)

def rows_of(hidden, operations):
    """Hidden states, moved as the logits are; where the classes are; what follows for each row."""
    where, later = hidden.dim() - 1, []
    for operator, args, kwargs, before, after in operations:
        kind, count = operator.overloadpacket, len(before)
        if kind in VIEWS:
            if where != count - 1 or not after or before[-1] != after[-1]:
                return None
            hidden, where = hidden.reshape(*after[:-1], hidden.shape[-1]), len(after) - 1
        elif kind is ATEN.permute:
            hidden = hidden.permute(args[0])
            where = [dim % count for dim in args[0]].index(where)
        elif kind in MOVES:
            dim = args[0] % count
            if dim == where and kind is ATEN.slice:
                later.append((operator, (-1, *args[1:]), kwargs))
                continue
            if dim == where and kind is ATEN.select:
                return None
            hidden = operator(hidden, *args, **kwargs)
            if kind is ATEN.select:
                where -= dim < where
            elif kind is ATEN.transpose:
                where = {dim: args[1] % count, args[1] % count: dim}.get(where, where)
        elif kind in BY_NUMBER:
            if where != count - 1 and any(one.numel() > 1 for one in tensors_in(args)):
                return None
            flat = mapped(lambda one: one.flatten() if one.numel() > 1 else one, args)
            later.append((operator, flat, kwargs))
    return hidden, where, later
'''

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
        ctx.head, ctx.of_head, ctx.is_watched = call.head, call.gradients, call.is_watched
        ctx.options = {
            "ignore_index": ignored, "label_smoothing": smoothing, "reduction": reduction
        }
        wanted = [logits.requires_grad and one is not None and one.requires_grad for one in tensors]
        ctx.how = call.dtype, logits.step.operations(), ignored, smoothing, wanted
        total, ctx.gradients = HeadLoss.sums(ctx, tensors, target)
        ctx.count = (target != ignored).sum() if reduction == "mean" else torch.ones_like(total)
        dtype = logits.dtype
        if torch.is_autocast_enabled(device) and dtype != torch.float64:
            dtype = torch.float32
        return (total / ctx.count).to(dtype)

    @staticmethod
    def sums(ctx, tensors, target):
        dtype, operations, ignored, smoothing, wanted = ctx.how
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
        if torch.is_grad_enabled() or ctx.is_watched:
            return HeadLoss.gradient_of_logits(ctx, tensors, target, factor), *[None] * 4
        gradients, ctx.gradients = ctx.gradients, None
        if gradients is None:  # the graph was retained
            _, gradients = HeadLoss.sums(ctx, tensors, target)
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
    return _LOGITS + sums + loss


HEAD = LOSS_OF_CHUNK + head_code(_SUMS)
