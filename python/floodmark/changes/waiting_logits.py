"""The code of logits that wait, for `chunked-loss=head`.

The head returns logits that are not computed yet. They remember the hidden states and the simple
operations that follow. Any other operation computes them as the program does, so a program means
what it meant before. `deferred_head.py` has the loss. It is plain torch code, which is printed as a
patch, and which runs.
"""

from __future__ import annotations

#: Logits that are computed when an operator needs them.
LOGITS = '''
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
        self.watches = [[]]  # one is not empty where the program wants the gradient of the logits

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
            joined = joined_logits(*args, **kwargs) if function is torch.cat else None
            if joined is not None:
                return joined
            is_hook = name == "register_hook" and not is_of_torch(*args[1:], *kwargs.values())
            if is_hook or name == "retain_grad" or function is torch.autograd.grad:
                for one in tensors_in(args, kwargs):
                    if isinstance(one, Logits):
                        one.step.call.watches[0].append(True)
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

class JoinedLogits(torch.autograd.Function):
    @staticmethod
    def forward(ctx, step, *parts):
        ctx.set_materialize_grads(False)
        ctx.gradients, ctx.sizes = step.call.gradients, [len(one) for one in parts]
        ctx.of_parts = [one.step.call.gradients for one in parts]
        return Logits(step)

    @staticmethod
    def backward(ctx, gradient):
        for of_hidden, *of_head in ctx.gradients:
            none = [None] * len(ctx.sizes)
            for at, rows in enumerate(none if of_hidden is None else of_hidden.split(ctx.sizes)):
                ctx.of_parts[at].append((rows, *(of_head if at == 0 else (None, None))))
        ctx.gradients.clear()
        if gradient is None:
            return (None,) * (1 + len(ctx.sizes))
        return None, *gradient.split(ctx.sizes)

def joined_operation(operator, args, kwargs, before, after, rows):
    """An operation on some rows of logits, for all rows; None where that may be another one."""
    kind, count = operator.overloadpacket, len(before)
    if tensors_in(args, kwargs) or kind is ATEN._reshape_alias:
        return None
    if kind in VIEWS:
        return before[0] == after[0] and (operator, ((rows, *after[1:]),), kwargs)
    if kind in MOVES and not (kind is ATEN.slice and before == after):
        first = args[0][:1] if kind is ATEN.permute else args[: 1 + (kind is ATEN.transpose)]
        is_first = any(dim % count == 0 for dim in first)
        if is_first is not (kind is ATEN.permute):
            return None
    return operator, args, kwargs

def joined_step(parts):
    """The step of logits whose rows are those of all parts; None where they cannot wait."""
    if not all(isinstance(one, Logits) and one.step.value is None for one in parts):
        return None
    if not all(is_from_head(one) for one in parts if one.requires_grad):
        return None
    calls, rows, seen = [one.step.call for one in parts], sum(map(len, parts)), []
    for one, call in zip(parts, calls):
        operations = [joined_operation(*how, rows) for how in one.step.operations()]
        weights = id(call.head), id(call.weight), id(call.bias)
        seen.append((weights, call.dtype, call.hidden.shape[1:], one.shape[1:], operations))
        if not all(operations) or seen[0] != seen[-1] or len(call.hidden) != len(one):
            return None
    if any(call.now() != call.versions for call in calls):
        return None
    first, hidden = calls[0], torch.cat([call.hidden for call in calls])
    call = Call(first.head, hidden, first.weight, first.bias, first.dtype)
    call.watches += [watch for one in calls for watch in one.watches]
    shape = *hidden.shape[:-1], first.weight.shape[0]
    step = Step(call, torch.empty(shape, dtype=call.dtype, device="meta"))
    for operation in operations:
        step = step and step.next(*operation)
    return step

def joined_logits(tensors, dim=0, **others):
    """`torch.cat` of logits that wait, such as those of the parts of a batch."""
    step = None if dim or others else joined_step(tensors)
    return None if step is None else JoinedLogits.apply(step, *tensors)

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
