"""Another KV cache for `generate` of transformers: `kv-cache=static`, `=offloaded`, `=quantized`.

The library has these caches; the change sets `cache_implementation` in the model's own
`generation_config`, before the first `generate`. A static cache is allocated once with its final
length, where the usual one grows by a copy with each token. An offloaded one is in memory of the
host, but for the layer that is computed and the next. A program that makes its cache itself is left
alone. Sees: `generate` of models of transformers.
"""

from __future__ import annotations

import sys
import weakref
from functools import wraps
from types import FrameType, ModuleType
from typing import Any

from floodmark.changes.calls import Calls
from floodmark.changes.change import Change, Numerics, is_installed
from floodmark.changes.pasted_code import model_name
from floodmark.recording.import_watch import ImportWatch

_PATCH = """\
# after the model is made
{config}.cache_implementation = "{kind}"
"""

_STATIC = """\
{config}.disable_compile = True  # transformers compiles the model for a static cache
"""

_QUANTIZED = """\
{config}.cache_config = {{"backend": "{backend}"}}
"""

#: The libraries that quantize a cache, by their modules, and what transformers calls them.
_BACKENDS = {"optimum.quanto": "quanto", "hqq": "hqq"}

_NUMERICS: dict[str, Numerics] = {
    # Attention reads the whole length, with a mask.
    "static": "rounding",
    "offloaded": "same",
    "quantized": "changed",
}

#: What a call of `generate` makes its cache from, other than its configuration.
_OWN_CACHES = ("past_key_values", "cache_params")
_ASSISTED = ("assistant_model", "prompt_lookup_num_tokens", "assistant_early_exit")


class KvCache(Change):
    """Has `generate` keep the keys and values of earlier tokens in another way."""

    name = "kv-cache"
    calls = Calls.INFERENCE

    def __init__(self, argument: str = "") -> None:
        super().__init__(argument)
        self.numerics = _NUMERICS[argument]
        self.slows = argument != "static"
        self._models: Any = weakref.WeakSet()
        self._unseen = "the program does not call `generate` of transformers"

    def attach(self, torch: Any) -> None:  # noqa: ARG002
        watch = ImportWatch("transformers.generation.utils", self._watch_generate)
        self.on_exit(watch.stop)

    def _watch_generate(self, utilities: ModuleType) -> None:
        mixin = utilities.GenerationMixin
        original = mixin.generate

        @wraps(original)
        def generate(model: Any, *args: Any, **kwargs: Any) -> Any:
            self.guarded(self._before, model, args, kwargs, sys._getframe(1))
            return original(model, *args, **kwargs)

        self.replace(mixin, "generate", generate)

    def _before(
        self, model: Any, args: tuple[Any, ...], kwargs: dict[str, Any], frame: FrameType
    ) -> None:
        if self.reason:
            return
        given = kwargs.get("generation_config", args[1] if len(args) > 1 else None)
        is_new = model not in self._models
        reason = self._unsuited(model, _Options(kwargs, given, model if is_new else None))
        if reason and self.target:
            self.give_up(reason)
        elif reason:
            self.reason = reason
        elif is_new:
            self._models.add(model)
            self._set(model, f"{model_name(model, frame)}.generation_config")

    def _unsuited(self, model: Any, options: _Options) -> str:
        """Why a call of `generate` keeps its cache; empty where it need not."""
        kind = type(model).__name__
        if any(options.value(name) is not None for name in _OWN_CACHES):
            return "the program gives `generate` a cache of its own"
        if options.value("use_cache") is False:
            return "the program turns the cache off"
        chosen = options.value("cache_implementation")
        if chosen is not None:
            return f"the program chooses a cache itself: `{chosen}`"
        supports = getattr(model, "_supports_default_dynamic_cache", None)
        if supports is not None and not supports():
            return f"`{kind}` has a cache of its own"
        if self.argument == "static" and any(options.value(name) for name in _ASSISTED):
            return "assisted generation needs a cache that can become shorter"
        if self.argument != "static" and model.config.is_encoder_decoder:
            return f"`{kind}` has an encoder: transformers has only a static cache for it"
        if self.argument == "offloaded" and model.device.type == "cpu":
            return f"`{kind}` is on the CPU, and so is its cache"
        if self.argument == "quantized" and _backend() is None:
            return "neither `optimum-quanto` nor `hqq` is installed"
        return ""

    def _set(self, model: Any, written: str) -> None:
        config = model.generation_config
        self.replace(config, "cache_implementation", self.argument)
        code = _PATCH
        if self.argument == "static":
            self.replace(config, "disable_compile", True)
            code += _STATIC
        elif self.argument == "quantized":
            self.replace(config, "cache_config", {"backend": _backend()})
            code += _QUANTIZED
        called = f"`generate` of `{type(model).__name__}`"
        self.target += f", {called}" if self.target else called
        self.patch += code.format(config=written, kind=self.argument, backend=_backend())

    def prepare(self, root: Any, frame: FrameType | None) -> None:  # noqa: ARG002
        if hasattr(root, "generation_config"):
            kind = type(root).__name__
            self._unseen = f"`{kind}` is called without `generate`: its cache is the program's own"

    def nothing_found(self) -> str:
        return self._unseen


class _Options:
    """What a call of `generate` is asked for, in the order in which it reads its options."""

    def __init__(self, kwargs: dict[str, Any], given: Any, model: Any) -> None:
        self._kwargs = kwargs
        #: The configuration of the call, then that of a model which the change has not set yet.
        self._configs = (given, getattr(model, "generation_config", None))

    def value(self, name: str) -> Any:
        values = (self._kwargs.get(name), *(getattr(one, name, None) for one in self._configs))
        return next((one for one in values if one is not None), None)


def _backend() -> str | None:
    """What transformers calls the library that quantizes a cache; None where none is installed."""
    return next((name for module, name in _BACKENDS.items() if is_installed(module)), None)
