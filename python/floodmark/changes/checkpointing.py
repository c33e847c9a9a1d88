"""Activation checkpointing of repeated blocks: `checkpoint=12`, `checkpoint=all`, `=selective`.

Models of transformers are checkpointed by their own method where it exists, because it also turns
the cache of keys and values off. Other blocks get a `forward` that calls
`torch.utils.checkpoint.checkpoint`.
"""

from __future__ import annotations

from functools import partial
from types import FrameType
from typing import Any

from floodmark.changes.change import Change
from floodmark.changes.pasted_code import before_training, model_name
from floodmark.changes.repeated_blocks import RepeatedBlocks, indexed, joined, repeated_blocks
from floodmark.changes.replaced_methods import replace_method

#: What selective checkpointing keeps: the operators that take long to compute again.
SAVED_OPERATORS = (
    "mm",
    "addmm",
    "bmm",
    "baddbmm",
    "convolution",
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_cudnn_attention",
)

_SELECTIVE = "selective"
_ENABLE = "gradient_checkpointing_enable"


class Checkpointing(Change):
    """Computes the activations of blocks again in the backward pass instead of saving them."""

    name = "checkpoint"
    slows = True

    def attach(self, torch: Any) -> None:
        self._torch = torch

    def prepare(self, root: Any, frame: FrameType | None) -> None:
        if self.target:
            return
        found = repeated_blocks(self._torch, root)
        if found is None:
            self.reason = f"`{type(root).__name__}` has no repeated blocks"
            return
        total = len(found.blocks)
        self.blocks = total
        count = int(self.argument) if self.argument.isdigit() else total
        count = min(count, total)
        if count == 0:
            self.reason = "no block is to be checkpointed"
            return
        self._apply(root, model_name(root, frame), found, count)
        self.patch = before_training(frame) + self.patch

    def _apply(self, root: Any, name: str, found: RepeatedBlocks, count: int) -> None:
        owner = None if self.argument == _SELECTIVE else _owner_of_method(root, found)
        if owner is not None:
            if any(block.gradient_checkpointing for block in found.blocks):
                self.reason = f"`{type(owner[1]).__name__}` is checkpointed by the program"
                return
            self._enable(owner[1], found, count)
            self.patch = _method_patch(joined(name, owner[0]), name, found, count)
        else:
            for block in found.blocks[:count]:
                self._wrap(block)
            self.patch = _wrapper_patch(name, found, count, self.argument == _SELECTIVE)
        self.reason = ""
        self.target = found.described(count)

    def _enable(self, owner: Any, found: RepeatedBlocks, count: int) -> None:
        """The model's own method; blocks beyond `count` are left as they are."""
        others = [
            module
            for module in owner.modules()
            if getattr(module, "gradient_checkpointing", None) is False
        ]
        owner.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        self.on_exit(owner.gradient_checkpointing_disable)
        chosen = {id(block) for block in found.blocks[:count]}
        kinds = tuple({type(block) for block in found.blocks})
        for module in others:
            is_block = isinstance(module, kinds)
            if is_block and id(module) not in chosen:
                module.gradient_checkpointing = False

    def _wrap(self, block: Any) -> None:
        from torch.utils.checkpoint import checkpoint

        torch = self._torch
        options: dict[str, Any] = {"use_reentrant": False}
        if self.argument == _SELECTIVE:
            from torch.utils.checkpoint import create_selective_checkpoint_contexts

            saved = saved_operators(torch)
            options["context_fn"] = partial(create_selective_checkpoint_contexts, saved)

        def checkpointed(original: Any) -> Any:
            if not torch.is_grad_enabled():
                return original
            return partial(checkpoint, original, **options)

        replace_method(self, block, "forward", checkpointed)

    def nothing_found(self) -> str:
        return "no module was called that is trained, so there are no blocks"


def saved_operators(torch: Any) -> list[Any]:
    """The operators of `SAVED_OPERATORS` that this torch has."""
    packets = (getattr(torch.ops.aten, name, None) for name in SAVED_OPERATORS)
    return [packet.default for packet in packets if packet is not None]


def _owner_of_method(root: Any, found: RepeatedBlocks) -> tuple[str, Any] | None:
    """The module of transformers whose method checkpoints these blocks, and its name."""
    if not all(hasattr(block, "gradient_checkpointing") for block in found.blocks):
        return None
    for name, module in root.named_modules():
        if getattr(module, "supports_gradient_checkpointing", False) and hasattr(module, _ENABLE):
            return name, module
    return None


def _method_patch(owner: str, name: str, found: RepeatedBlocks, count: int) -> str:
    enable = (
        f"{indexed(owner)}.gradient_checkpointing_enable("
        'gradient_checkpointing_kwargs={"use_reentrant": False})\n'
    )
    if count == len(found.blocks):
        return enable
    return (
        f"{enable}for block in {found.expression(name, f'[{count}:]')}:\n"
        "    block.gradient_checkpointing = False\n"
    )


def _wrapper_patch(name: str, found: RepeatedBlocks, count: int, is_selective: bool) -> str:
    limits = "" if count == len(found.blocks) else f"[:{count}]"
    blocks = found.expression(name, limits)
    if not is_selective:
        return (
            "from functools import partial\n"
            "from torch.utils.checkpoint import checkpoint\n\n"
            f"for block in {blocks}:\n"
            "    block.forward = partial(checkpoint, block.forward, use_reentrant=False)\n"
        )
    operators = "".join(f'    "{one}",\n' for one in SAVED_OPERATORS)
    return (
        "from functools import partial\n"
        "from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts\n\n"
        f"saved = [\n{operators}]\n"
        "saved = [getattr(torch.ops.aten, name).default for name in saved "
        "if hasattr(torch.ops.aten, name)]\n"
        "contexts = partial(create_selective_checkpoint_contexts, saved)\n"
        f"for block in {blocks}:\n"
        "    block.forward = partial("
        "checkpoint, block.forward, use_reentrant=False, context_fn=contexts)\n"
    )
