"""MLPs in chunks of tokens: `chunked-mlp=4`.

An MLP is the outermost module of a repeated block that computes each token alone and has two
products with weights or more: `token_wise.py` finds out with the first tokens that it gets. Its
inner activations, which are wider than its input, then exist for one chunk at a time: each chunk is
computed again in the backward pass. The code that is printed is the code that runs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from floodmark.changes.change import Change, Numerics, defined_by
from floodmark.changes.pasted_code import before_training, model_name
from floodmark.changes.repeated_blocks import RepeatedBlocks, indexed, joined, repeated_blocks
from floodmark.changes.replaced_methods import replace_method
from floodmark.changes.token_wise import computation_of

_CODE = """\
import functools
from torch.utils.checkpoint import checkpoint

def in_chunks(forward, chunks):
    @functools.wraps(forward)
    def chunked(x, *others, **options):
        if others or options or not torch.is_grad_enabled():
            return forward(x, *others, **options)
        parts = x.reshape(*[1] * (x.dim() - 2), -1, x.shape[-1]).chunk(chunks, -2)
        parts = [checkpoint(forward, part, use_reentrant=False) for part in parts]
        whole = torch.cat(parts, -2)
        return whole.reshape(*x.shape[:-1], whole.shape[-1])

    return chunked

"""

#: Methods that compute the MLP of a block: those of torch's own layers, and of BERT and others.
_METHODS = ("_ff_block", "feed_forward_chunk")


@dataclass
class _Watched:
    """The blocks of a model, and the methods of them that run in chunks."""

    root: Any
    model: str
    place: str
    blocks: RepeatedBlocks
    #: The number of a block, the name of the module in it, its class, and the method.
    chunked: list[tuple[int, str, str, str]] = field(default_factory=list)


class ChunkedMlp(Change):
    """Computes MLPs in chunks of tokens, and again in the backward pass."""

    name = "chunked-mlp"
    slows = True
    numerics: Numerics = "rounding"

    def __init__(self, argument: str = "") -> None:
        super().__init__(argument)
        self._chunks = int(argument)
        self._models: list[_Watched] = []
        self._unsuited = ""

    def attach(self, torch: Any) -> None:
        self._torch = torch
        self._in_chunks = defined_by(_CODE, "in_chunks")

    def prepare(self, root: Any, frame: FrameType | None) -> None:
        found = repeated_blocks(self._torch, root)
        if found is None:
            self._unsuited = f"`{type(root).__name__}` has no repeated blocks"
            return
        model = _Watched(root, model_name(root, frame), before_training(frame), found)
        for number, block in enumerate(found.blocks):
            for name, one in block.named_modules():
                matrices = sum(weight.dim() > 1 for weight in one.parameters())
                methods = ("forward", *_METHODS) if one is block else ("forward",)
                for method in methods:
                    if matrices > 1 and hasattr(one, method) and method not in vars(one):
                        self._watch(model, number, (name, one), method)
        self._models.append(model)
        self._unsuited = self._unsuited or (
            f"no module of `{found.kind}` has two weights and computes each token alone"
        )

    def _watch(self, model: _Watched, number: int, named: tuple[str, Any], method: str) -> None:
        """Decide at the first call."""
        torch, (name, module) = self._torch, named

        def watched(original: Any) -> Any:
            def watch(*args: Any, **kwargs: Any) -> Any:
                is_copy = getattr(original, "__self__", module) is not module
                if is_copy or not torch.is_grad_enabled():
                    return original(*args, **kwargs)
                if vars(module).get(method) is watching:
                    delattr(module, method)
                    if self._suits(module, method, args, kwargs):
                        self._forget_inner(module)
                        replace_method(
                            self, module, method, lambda one: self._in_chunks(one, self._chunks)
                        )
                        model.chunked.append((number, name, type(module).__name__, method))
                        self.target = self._described()
                return getattr(module, method)(*args, **kwargs)

            return watch

        watching = replace_method(self, module, method, watched)
        getattr(watching, "__func__", watching).is_watch = True

    def _suits(self, module: Any, method: str, args: Any, kwargs: Any) -> bool:
        """Whether a call computes each token of its one tensor alone."""
        torch = self._torch
        is_simple = len(args) == 1 and not kwargs and torch.is_tensor(args[0])
        if not is_simple or args[0].dim() < 2 or not args[0].is_floating_point():
            return False
        rows = -(-args[0].numel() // args[0].shape[-1] // self._chunks)
        found = computation_of(module, method, args[0], rows)
        if found.refusal:
            self._unsuited = f"`{type(module).__name__}` stays whole: {found.refusal}"
            return False
        if found.is_random and found.products > 1:
            # Other random numbers are drawn.
            self.numerics = "changed"
        return found.products > 1

    def _forget_inner(self, module: Any) -> None:
        """What lies inside an MLP is part of it."""
        for one in module.modules():
            if getattr(vars(one).get("forward"), "is_watch", False):
                del one.forward

    def _described(self) -> str:
        """`12 × GPT2MLP`."""
        kinds: dict[str, int] = {}
        for model in self._models:
            for _, _, kind, method in model.chunked:
                of = kind if method == "forward" else f"the MLP of {kind}"
                kinds[of] = kinds.get(of, 0) + 1
        return " and ".join(f"{count} × {kind}" for kind, count in kinds.items())

    def report(self) -> Any:
        if self.target:
            models = [one for one in self._models if one.chunked]
            place = models[0].place
            self.patch = place + _CODE + "".join(self._use(one) for one in models)
        return super().report()

    def _use(self, model: _Watched) -> str:
        """Code that replaces the methods of a model."""
        blocks = model.blocks
        names = {(name, method) for _, name, _, method in model.chunked}
        if len(names) == 1 and len(model.chunked) == len(blocks.blocks):
            ((name, method),) = names
            forward = f"{indexed(joined('block', name))}.{method}"
            use = f"{forward} = in_chunks({forward}, {self._chunks})"
            return f"for block in {blocks.expression(model.model)}:\n    {use}\n"
        where = {id(one): name for name, one in model.root.named_modules()}
        lines = []
        for number, name, _, method in model.chunked:
            block = joined(model.model, where[id(blocks.blocks[number])])
            forward = f"{indexed(joined(block, name))}.{method}"
            lines.append(f"{forward} = in_chunks({forward}, {self._chunks})\n")
        return "".join(lines)

    def nothing_found(self) -> str:
        return self._unsuited or super().nothing_found()
