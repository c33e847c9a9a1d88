"""The logits of the last tokens alone: `logits-to-keep=1`.

The next token depends on the logits of the last one only, but a causal language model that is
called by itself computes those of all tokens. Models of transformers take `logits_to_keep`; in
others, the last `Linear` gets the hidden states of the last tokens alone. The program gets logits
of another shape, so this is for programs that read `logits[:, -1]`, not for those that score texts.
Where a program indexes other tokens, the change ends and says that its results are wrong. Programs
that train, and calls with `labels`, are left alone.

Sees: outermost calls of language models, and how the program indexes logits.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

from floodmark.changes.calls import Calls, calls_of, is_in_training_mode
from floodmark.changes.change import Change, Numerics, defined_by
from floodmark.changes.chunked_loss import heads_of
from floodmark.changes.optimizers import when_optimizer_is_made
from floodmark.changes.pasted_code import before_calls, callers, calling_line, model_name
from floodmark.changes.repeated_blocks import indexed, joined

_OPTION = "logits_to_keep"

_ONLY = "# only if the program reads no other logits than `logits[:, {first}]`\n"

_OF_TRANSFORMERS = """\
def keep_last_logits(model, args, kwargs):
    return args, {{"logits_to_keep": {count}, **kwargs}}

"""

_OF_HEAD = """\
def keep_last_logits(head, args):
    return (args[0][:, -{count}:],)

"""

#: Functions whose results have the tokens where the logits have them.
_POINTWISE = frozenset({"argmax", "div", "float", "log_softmax", "mul", "softmax", "__truediv__"})


class KeptLogits(Change):
    """Computes the logits of the last tokens alone, for programs that read no others."""

    name = "logits-to-keep"
    calls = Calls.ALL
    numerics: Numerics = "rounding"

    def attach(self, torch: Any) -> None:
        self._torch = torch
        self._count = int(self.argument)
        self._watched = _watched_logits(torch, self._count, self._read_others)
        #: The shape of the token ids of this call, where the model is not one of transformers.
        self._tokens: Any = None
        self._unseen = "no language model was called"
        when_optimizer_is_made(self, torch, self._refuse)

    def prepare(self, root: Any, frame: FrameType | None) -> None:
        is_prepared = bool(self.patch)
        if is_prepared or self.reason or self._is_trained(root):
            return
        model = model_name(root, frame)
        asked = (
            (name, one)
            for name, one in root.named_modules()
            if _OPTION in inspect.signature(one.forward).parameters
        )
        found = next(asked, None)
        if found is not None:
            self._ask(found[1], indexed(joined(model, found[0])))
        else:
            self._cut(root, model)
        if self.patch:
            first = "-1" if self._count == 1 else f"-{self._count}:"
            place = before_calls(self._torch, root, frame)
            self.patch = place + _ONLY.format(first=first) + self.patch

    def _is_trained(self, root: Any) -> bool:
        is_trained = calls_of(self._torch, root) is Calls.TRAINING
        if is_trained:
            self._refuse(is_in_training_mode(root))
        return is_trained

    def _refuse(self, reason: str) -> None:
        if self.target:
            self.give_up(reason)
        self.reason = self.reason or reason

    def _read_others(self) -> None:
        self._refuse(f"the program reads other logits in {calling_line()}: its results are wrong")

    def _kept(self, kind: str) -> None:
        token = "token" if self._count == 1 else f"{self._count} tokens"
        self.target = f"the logits of the last {token} of `{kind}` alone"

    def _hook(self, register: Any, call: Callable[..., Any], **options: bool) -> None:
        self.on_exit(register(partial(self.guarded, call), **options).remove)

    # Models of transformers.

    def _ask(self, model: Any, written: str) -> None:
        code = _OF_TRANSFORMERS.format(count=self._count)
        keep = defined_by(code, "keep_last_logits")
        signature = inspect.signature(model.forward)

        def before(one: Any, args: Any, kwargs: Any) -> Any:
            given = signature.bind_partial(*args, **kwargs).arguments
            self._unsuited(one, {**given, **given.get("kwargs", {})})
            if self.reason:
                return None
            self._kept(type(one).__name__)
            return keep(one, args, kwargs)

        def after(_one: Any, _args: Any, output: Any) -> None:
            logits: Any = getattr(output, "logits", None)
            if self.target and type(logits) is self._torch.Tensor:
                output.logits = logits.as_subclass(self._watched)

        use = f"{written}.register_forward_pre_hook(keep_last_logits, with_kwargs=True)\n"
        self.patch = code + use
        self._hook(model.register_forward_pre_hook, before, with_kwargs=True)
        self._hook(model.register_forward_hook, after)

    def _unsuited(self, model: Any, given: dict[str, Any]) -> None:
        """Refuse it where a call of a model needs other logits, or the program asks itself."""
        if self.reason or self._is_trained(model):
            return
        if given.get("labels") is not None:
            self._refuse("the program gives `labels`, and their loss needs all logits")
        elif _OPTION in given and any(one.f_code.co_name == "generate" for one in callers()):
            self._refuse("`generate` keeps the logits of the last token alone already")
        elif _OPTION in given:
            self._refuse(f"the program gives `{_OPTION}` itself")

    # Other models.

    def _cut(self, root: Any, model: str) -> None:
        torch, kind = self._torch, type(root).__name__
        embeddings = [one for one in root.modules() if isinstance(one, torch.nn.Embedding)]
        sizes = {one.num_embeddings for one in embeddings}
        heads = [(name, one) for name, one in heads_of(torch, root) if one.out_features in sizes]
        if len(heads) != 1:
            self._unseen = f"`{kind}` has no `Linear` with the outputs of a vocabulary at its end"
            return
        ((name, head),) = heads
        code = _OF_HEAD.format(count=self._count)
        keep = defined_by(code, "keep_last_logits")

        def note(one: Any, args: Any, kwargs: Any) -> None:
            given = (*args, *kwargs.values())
            self._tokens = next((one.shape for one in given if self._are_tokens(one)), None)
            if not self.reason:
                self._is_trained(one)

        def before(one: Any, args: Any) -> Any:
            if self.reason:
                return None
            if self._tokens is None or args[0].shape[:-1] != self._tokens:
                self._refuse(f"the hidden states of `{kind}` are not of (batch, tokens, width)")
                return None
            self._kept(kind)
            return keep(one, args)

        def after(_one: Any, _args: Any, output: Any) -> Any:
            if not self.target or type(output) is not torch.Tensor:
                return None
            return output.as_subclass(self._watched)

        use = f"{indexed(joined(model, name))}.register_forward_pre_hook(keep_last_logits)\n"
        self.patch = code + use
        self._hook(root.register_forward_pre_hook, note, with_kwargs=True)
        self._hook(head.register_forward_pre_hook, before)
        self._hook(root.register_forward_hook, after)

    def _are_tokens(self, value: Any) -> bool:
        torch = self._torch
        is_matrix = torch.is_tensor(value) and value.dim() == 2
        return is_matrix and value.dtype in (torch.int64, torch.int32)

    def nothing_found(self) -> str:
        return self._unseen


def _watched_logits(torch: Any, count: int, on_others: Callable[[], None]) -> Any:
    """A class of tensors that calls `on_others` where other tokens than the last are indexed."""

    class WatchedLogits(torch.Tensor):  # type: ignore[misc]
        @classmethod
        def __torch_function__(
            cls, function: Any, kinds: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            name = getattr(function, "__name__", "")
            result = super().__torch_function__(function, kinds, args, kwargs or {})
            logits: Any = args[0] if args else None
            is_first = type(logits) is cls
            if is_first and name == "__getitem__":
                if _is_of_others(args[1], logits.dim(), count):
                    on_others()
            elif is_first and name in _POINTWISE and result.shape[:2] == logits.shape[:2]:
                return result
            return result.as_subclass(torch.Tensor) if type(result) is cls else result

    return WatchedLogits


def _is_of_others(index: Any, dims: int, count: int) -> bool:
    """Whether an index of logits (batch, tokens, classes) is of other tokens than the last."""
    entries = list(index) if isinstance(index, tuple) else [index]
    for at, one in enumerate(entries):
        if one is Ellipsis:
            entries[at : at + 1] = [slice(None)] * (dims - len(entries) + 1)
            break
    if len(entries) < 2 or any(one is None for one in entries[:2]):
        return False
    tokens = entries[1]
    if isinstance(tokens, int):
        return not -count <= tokens < 0
    if isinstance(tokens, slice):
        is_all = tokens.start in (None, 0) and tokens.stop is None
        is_last = isinstance(tokens.start, int) and -count <= tokens.start < 0
        return not (is_all or is_last)
    return True
