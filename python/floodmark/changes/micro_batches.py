"""Batches in parts: `micro-batches=4`.

A call of the model computes one part of the batch after the other. All parts but the last one are
computed again in the backward pass, which begins with the last: so the activations of one part are
live at a time. Results are joined, and the gradients of a parameter are complete at once, as those
of the whole batch: what follows sees no difference. A mean of `cross_entropy` that the model itself
computes is summed up, and divided by the number of targets of the whole batch.

That is right for a model that computes each sample alone. What is known to mix samples, or cannot
be joined, is left as it is, with the reason. The code that is printed is the code that runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import FrameType
from typing import Any

from floodmark import torch_private
from floodmark.changes.change import Change, Numerics, definitions
from floodmark.changes.pasted_code import before_training, model_name
from floodmark.changes.repeated_blocks import indexed, joined
from floodmark.changes.repeated_choices import with_same_choices
from floodmark.changes.replaced_methods import replace_method

_CODE = '''\
import contextlib
import functools
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map
from torch.utils.checkpoint import checkpoint

@contextlib.contextmanager
def summed_losses(notes):
    """Have `cross_entropy` return the sum where a mean is wanted; note each with its count."""
    whole, is_inner = torch.nn.functional.cross_entropy, False

    @functools.wraps(whole)
    def cross_entropy(
        input, target, weight=None, size_average=None, ignore_index=-100, reduce=None,
        reduction="mean", label_smoothing=0.0,
    ):
        nonlocal is_inner
        is_known = (
            not is_inner  # a mode of torch calls it again
            and weight is size_average is reduce is None
            and reduction in ("mean", "sum")
            and not target.is_floating_point()
            and input.dtype != torch.float16  # a sum would be too large
        )
        how, before, is_inner = "sum" if is_known else reduction, is_inner, True
        result = whole(
            input, target, weight, size_average, ignore_index, reduce, how, label_smoothing
        )
        is_inner = before
        if is_known:
            is_mean = reduction == "mean"
            notes.append((result, (target != ignore_index).sum() if is_mean else None))
        return result

    torch.nn.functional.cross_entropy = cross_entropy
    try:
        yield
    finally:
        torch.nn.functional.cross_entropy = whole
        notes = None  # a mode of torch may keep the function

def computed_part(forward, args, kwargs):
    notes = []
    with summed_losses(notes):
        return forward(*args, **kwargs), notes

def joined_losses(losses, notes, is_divided):
    """The loss of the whole batch, of the losses of its parts."""
    found = []
    for loss, of_part in zip(losses, notes):
        is_quotient = is_divided and type(loss.grad_fn).__name__ == "DivBackward0"
        of = loss.grad_fn.next_functions[0][0] if is_quotient else None
        for note in of_part:
            if note[0] is loss or (note[1] is None and of is note[0].grad_fn):
                found.append(note)
    if len(found) != len(losses):
        raise TypeError("a number in its result is no mean or sum by `cross_entropy`")
    for note, of_part in zip(found, notes):
        of_part[:] = [one for one in of_part if one is not note]
    total, counts = torch.stack(losses).sum(), [count for _, count in found]
    return total if counts[0] is None else total / sum(counts)

def joined(outputs, notes, sizes, is_divided):
    """The output for the whole batch, of the outputs for its parts."""
    columns = []
    for one in zip(*map(tree_leaves, outputs)):
        first = one[0]
        if not torch.is_tensor(first):
            if first is not None and not isinstance(first, (bool, int, float, str)):
                raise TypeError(f"its result has a `{type(first).__name__}`")
            columns.append(first)
        elif not first.dim():
            columns.append(joined_losses(one, notes, is_divided))
        elif [len(part) for part in one] == sizes:
            columns.append(torch.cat(one))
        else:
            raise TypeError(f"its result has a tensor of {tuple(first.shape)}, not of a batch")
    if any(count is not None for of_part in notes for _, count in of_part):
        raise TypeError("a mean by `cross_entropy` is not its result, but a part of it")
    return tree_flatten(outputs[0])[1].unflatten(columns)

def batch_size(values):
    """The first dimension of the first tensor that has more than one row; 0 if there is none."""
    tensors = [one for one in tree_leaves(values) if torch.is_tensor(one) and one.dim()]
    return next((len(one) for one in tensors if len(one) > 1), 0)

def in_parts(forward, parts):
    @functools.wraps(forward)
    def divided(*args, **kwargs):
        size = batch_size((args, kwargs)) if torch.is_grad_enabled() else 0
        if not size:
            return forward(*args, **kwargs)
        rows, found, sizes = -(-size // parts), [], []
        for start in range(0, size, rows):
            def of_part(value):
                is_whole = not torch.is_tensor(value) or not value.dim() or len(value) != size
                return value if is_whole else value[start : start + rows]

            part = tree_map(of_part, (args, kwargs))
            sizes.append(min(rows, size - start))
            if start + rows < size:
                found.append(checkpoint(computed_part, forward, *part, use_reentrant=False))
            else:  # the backward pass begins with it
                found.append(computed_part(forward, *part))
        outputs, notes = zip(*found)
        return joined(outputs, notes, sizes, kwargs.get("num_items_in_batch") is not None)

    return divided

'''

#: What a part may get as it is.
_PLAIN = (bool, int, float, str, type(None))


class MicroBatches(Change):
    """Computes parts of a batch one after the other, and again in the backward pass."""

    name = "micro-batches"
    slows = True
    numerics: Numerics = "rounding"

    def __init__(self, argument: str = "") -> None:
        super().__init__(argument)
        self._parts = int(argument)
        #: Which models compute batches in parts, with the sizes of the batches.
        self._sizes: dict[str, int] = {}
        self._place = ""
        self._uses: list[str] = []

    def attach(self, torch: Any) -> None:
        self._torch = torch
        self._code = definitions(_CODE, self.text)
        checkpoint = self._code["checkpoint"]
        self._code["checkpoint"] = lambda function, *args, **kwargs: checkpoint(
            with_same_choices(function), *args, **kwargs
        )

    def prepare(self, root: Any, frame: FrameType | None) -> None:
        if self.reason:
            return
        name = model_name(root, frame)
        if isinstance(root, self._torch.nn.parallel.DistributedDataParallel):
            root, name = root.module, f"{name}.module"
        unsuited = _mixes_samples(self._torch, root)
        if unsuited:
            self.give_up(unsuited)
            return
        self._place = self._place or before_training(frame)
        self._keep_no_cache(root, name)
        self._uses.append(f"{name}.forward = in_parts({name}.forward, {self._parts})\n")
        self._divide(root)

    def _keep_no_cache(self, root: Any, name: str) -> None:
        """Keys and values for a later call would keep the activations of all parts alive."""
        seen = set()
        for path, module in root.named_modules():
            config = getattr(module, "config", None)
            if id(config) not in seen and getattr(config, "use_cache", False) is True:
                seen.add(id(config))
                self.replace(config, "use_cache", False)
                self._uses.append(f"{indexed(joined(name, path))}.config.use_cache = False\n")

    def _divide(self, root: Any) -> None:
        def divided(original: Any) -> Any:
            # A copy of the model has this method too.
            model = getattr(original, "__self__", root)
            return lambda *args, **kwargs: self._in_parts(model, original, args, kwargs)

        replace_method(self, root, "forward", divided)

    def _in_parts(self, root: Any, original: Any, args: Any, kwargs: Any) -> Any:
        """A call of a model in parts, or as a whole where that does not suit it."""
        torch = self._torch
        size = self._code["batch_size"]((args, kwargs))
        if self.reason or not torch.is_grad_enabled() or not size:
            return original(*args, **kwargs)
        unsuited = _unsuited_arguments(torch, (*args, *kwargs.values()), size)
        before = _random_states(torch)
        if not unsuited:
            try:
                result = self._code["in_parts"](original, self._parts)(*args, **kwargs)
                unsuited = _unsuited_result(torch, root, (args, kwargs), result, self._parts)
                if not unsuited:
                    self._applied(root, size, before)
                    return result
                del result
            except torch.cuda.OutOfMemoryError:
                raise
            except Exception as error:
                unsuited = _reason_of(error)
        torch.set_rng_state(before[0])
        if len(before) > 1:
            torch.cuda.set_rng_state(before[1])
        self.give_up(unsuited)
        return original(*args, **kwargs)

    def _applied(self, root: Any, size: int, before: list[Any]) -> None:
        """Say what was done, and whether it drew other random numbers."""
        torch = self._torch
        kind = type(root).__name__
        self._sizes[kind] = max(size, self._sizes.get(kind, 0))
        self.target = " and ".join(
            f"`{kind}`, batches of {size} in {-(-size // -(-size // self._parts))} parts"
            for kind, size in self._sizes.items()
        )
        self.patch = self._place + _CODE + "".join(self._uses)
        drawn = zip(before, _random_states(torch), strict=False)
        if any(not torch.equal(one, other) for one, other in drawn) or _drops(root):
            self.numerics = "changed"

    def nothing_found(self) -> str:
        if self._uses:
            return "no batch had two samples or more"
        return super().nothing_found()


def _reason_of(error: Exception) -> str:
    """Why parts were not joined; our own errors say it, others are of the program."""
    if type(error) is TypeError and str(error).startswith(("its ", "a ")):
        return str(error)
    return f"a part of a batch cannot be computed alone: {error!r}"


def _random_states(torch: Any) -> list[Any]:
    states = [torch.get_rng_state()]
    if torch.cuda.is_initialized():
        states.append(torch.cuda.get_rng_state())
    return states


def _drops(root: Any) -> bool:
    return any(getattr(one, "p", 0) and "Dropout" in type(one).__name__ for one in root.modules())


def _mixes_samples(torch: Any, root: Any) -> str:
    """Why a model does not compute each sample alone; empty where nothing says so."""
    nn = torch.nn
    norms = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
    if isinstance(root, nn.DataParallel):
        return "`DataParallel` splits the batch already"
    if any(map(torch_private.is_sharded, root.parameters())):
        return "parameters are sharded, and would be gathered for each part"
    for module in root.modules():
        kind = type(module).__name__
        if isinstance(module, norms) and module.training:
            return f"`{kind}` computes statistics of the whole batch"
        if getattr(module, "batch_first", None) is False:
            return f"`{kind}` has `batch_first=False`: the first dimension may not be the batch"
    return ""


def _unsuited_arguments(torch: Any, values: tuple[Any, ...], size: int) -> str:
    """Why arguments cannot be split; empty where they can."""
    for value in values:
        if isinstance(value, dict):
            unsuited = _unsuited_arguments(torch, tuple(value.values()), size)
            if unsuited:
                return unsuited
        elif torch.is_tensor(value):
            is_shared = value.dim() > 1 and len(value) == 1
            if value.dim() and len(value) != size and not is_shared:
                return f"it gets a tensor of {tuple(value.shape)} with a batch of {size} samples"
        elif isinstance(value, list | tuple):
            if not all(isinstance(one, _PLAIN) for one in value) or len(value) == size:
                return f"it gets a `{type(value).__name__}`, which may be of the batch"
        elif not isinstance(value, (*_PLAIN, torch.dtype, torch.device)):
            return f"it gets a `{type(value).__name__}`, which may be of the batch"
    return ""


def _unsuited_result(torch: Any, root: Any, given: Any, result: Any, parts: int) -> str:
    """Why a result may depend on the whole batch: another dimension is as long as a part."""
    inputs = list(_shapes(torch, given))
    size = next((shape[0] for shape in inputs if shape[0] > 1), 0)
    rows = -(-size // parts)
    explained = {length for shape in inputs for length in shape[1:]}
    explained |= {length for one in root.parameters() for length in one.shape}
    for shape in _shapes(torch, result):
        if rows in shape[1:] and rows not in explained:
            return f"its result has a tensor of {shape}, which compares samples of a part"
    return ""


def _shapes(torch: Any, values: Any) -> Iterator[tuple[int, ...]]:
    for one in torch_private.trees().tree_leaves(values):
        if torch.is_tensor(one) and one.dim():
            yield tuple(one.shape)
