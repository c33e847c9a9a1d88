"""Attention by torch's own function: `attention=sdpa`.

A model of transformers with `attn_implementation="eager"` computes the weights of all pairs of
tokens and keeps them for the backward pass; `scaled_dot_product_attention` does not. Where eager
attention computes more than that function does (a soft cap, weights for the program), the model is
left as it is. Sees: models of transformers.
"""

from __future__ import annotations

from types import FrameType
from typing import Any

from floodmark.changes.calls import Calls
from floodmark.changes.change import Change, Numerics
from floodmark.changes.pasted_code import before_calls, model_name
from floodmark.changes.repeated_blocks import indexed, joined

_SET = "set_attn_implementation"
#: With dropout other weights are dropped: the function draws random numbers of its own.
_DROPOUTS = ("attention_dropout", "attn_pdrop", "attention_probs_dropout_prob")


class SdpaAttention(Change):
    """Has models of transformers call `scaled_dot_product_attention`."""

    name = "attention"
    calls = Calls.ALL
    numerics: Numerics = "rounding"

    def attach(self, torch: Any) -> None:
        self._torch = torch

    def prepare(self, root: Any, frame: FrameType | None) -> None:
        if self.target or self.reason:
            return
        found = next(
            ((name, one) for name, one in root.named_modules() if hasattr(one, _SET)), None
        )
        if found is None:
            return
        name, model = found
        self.reason = _unsuited(model)
        if self.reason:
            return
        self.on_exit(lambda: getattr(model, _SET)("eager"))
        try:
            getattr(model, _SET)("sdpa")
        except (ImportError, ValueError):
            self.undo_all()
        if _implementations(model) != {"sdpa"}:
            self.reason = f"`{type(model).__name__}` has no other attention"
            self.undo_all()
            return
        hook = model.register_forward_pre_hook(self._called, with_kwargs=True)
        self.on_exit(hook.remove)
        if any(getattr(one, rate, 0) for one in _configs(model) for rate in _DROPOUTS):
            self.numerics = "changed"
        written = indexed(joined(model_name(root, frame), name))
        self.target = f"`{type(model).__name__}`"
        self.patch = f'{before_calls(self._torch, root, frame)}{written}.{_SET}("sdpa")\n'

    def _called(self, _model: Any, _args: Any, kwargs: dict[str, Any]) -> None:
        if kwargs.get("output_attentions"):
            self.give_up("the program asks for the weights of the attention")

    def nothing_found(self) -> str:
        return "no model of transformers was called"


def _unsuited(model: Any) -> str:
    """Why a model keeps its attention; empty where it need not."""
    kind = type(model).__name__
    configs = _configs(model)
    if _implementations(model) != {"eager"}:
        return f"`{kind}` does not compute its attention in Python"
    if any(getattr(one, "attn_logit_softcapping", None) for one in configs):
        return f"`{kind}` has a soft cap in its attention"
    if any(getattr(one, "output_attentions", False) for one in configs):
        return "the program asks for the weights of the attention"
    return ""


def _implementations(model: Any) -> set[Any]:
    return {getattr(one, "_attn_implementation", None) for one in _configs(model)}


def _configs(model: Any) -> list[Any]:
    """The configurations of a model and of the models inside it."""
    found = {id(one.config): one.config for one in model.modules() if hasattr(one, _SET)}
    return list(found.values())
