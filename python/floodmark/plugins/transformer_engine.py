"""Transformer Engine with fake tensors: its own layers, with kernels that only allocate.

Where the compiled extension is installed, its kernels are replaced for the time of the block. Where
it is not (no CUDA build, a laptop), a module of ours replaces it, so that the layers can be
imported; the modules that import it are removed from `sys.modules` afterwards and restored by the
next estimate. Sees: the modules of `transformer_engine`. Knows nothing of memory.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar

from floodmark import torch_private_fakes
from floodmark.plugins import Plugin
from floodmark.plugins._placeholders import Placeholders

if TYPE_CHECKING:
    from floodmark.plugins._te_extension import ReplacedExtension

_PACKAGE = "transformer_engine"
_EXTENSION = "transformer_engine_torch"

#: Packages that the layers import and an estimate never calls: ONNX export, Triton, inference.
_OPTIONAL = ("onnxscript", "onnx", "einops", "triton", "pydantic")

#: Our module, and the modules that import it, between two estimates.
_kept: dict[str, ModuleType] = {}


class TransformerEngine(Plugin):
    """Runs the layers of Transformer Engine on fake tensors."""

    name: ClassVar[str] = "transformer-engine"
    library: ClassVar[str] = "transformer_engine.pytorch"

    def __enter__(self) -> Plugin:
        if f"{_PACKAGE}.pytorch" not in sys.modules:
            # Functions under `torch.compile` would read the values of their arguments.
            self.set_variable("NVTE_TORCH_COMPILE", "0")
            if not _is_compiled():
                self._replace_extension()
        return super().__enter__()

    def attach(self, library: ModuleType) -> None:
        """Replace the kernels of the imported layers."""
        extension = sys.modules[_EXTENSION]
        if not _is_replacement(extension):
            from floodmark.plugins import _te_extension

            for name, kernel in _te_extension.functions().items():
                self._everywhere(getattr(extension, name, None), kernel)
        for function in list(_compiled_later()):
            self._everywhere(function, function.__wrapped__)
        self._choose_attention()
        if hasattr(library, "GroupedLinear"):
            self._split_evenly(library.GroupedLinear)
        self._keep_globals()
        self.setting.notes.append(
            "Transformer Engine: its layers ran, with kernels that only allocate"
        )

    def _replace_extension(self) -> None:
        """Make `transformer_engine.pytorch` importable without its compiled parts."""
        from floodmark.plugins import _te_extension

        before = _ours_of(sys.modules)
        sys.modules.update(_kept)
        _bind_to_parents(_kept)
        kept = sys.modules.get(_EXTENSION)
        extension = kept if kept is not None else _te_extension.ReplacedExtension()
        sys.modules[_EXTENSION] = extension
        self.on_exit(lambda: _unload(before))
        self._serve(extension)  # type: ignore[arg-type]
        # This variable keeps the package from loading CUDA's libraries.
        self.set_variable("NVTE_PROJECT_BUILDING", "1")
        placeholders = Placeholders(_OPTIONAL)
        self.on_exit(placeholders.remove)

        def no_loading(common: ModuleType) -> None:
            self.replace(common, "load_framework_extension", lambda *_: None)

        self.when_imported(f"{_PACKAGE}.common", no_loading)

    def _serve(self, extension: ReplacedExtension) -> None:
        extension.serving = True

        def stop() -> None:
            extension.serving = False

        self.on_exit(stop)

    def _everywhere(self, before: Any, after: Callable[..., Any]) -> None:
        """Replace a function in each module that has imported it."""
        if before is None:
            return
        for module in _ours_of(sys.modules).values():
            for name, value in list(vars(module).items()):
                if value is before:
                    self.replace(module, name, after)

    def _choose_attention(self) -> None:
        """Attention is chosen by the class of the tensors: pass it plain tensors."""
        from torch import Tensor
        from transformer_engine.pytorch.attention.dot_product_attention import utils

        choose = utils.get_attention_backend
        fake = torch_private_fakes.fake_tensor_class()

        def choose_for_real(attention_params: Any = None) -> Any:
            if getattr(attention_params, "qkv_type", None) is fake:
                attention_params = dataclasses.replace(attention_params, qkv_type=Tensor)
            return choose(attention_params)

        self._everywhere(choose, choose_for_real)

    def _split_evenly(self, grouped: Any) -> None:
        """`GroupedLinear` reads the rows of each group: pass known numbers, or even parts."""
        from torch import Tensor, int64, tensor

        forward = grouped.forward
        fake = torch_private_fakes.fake_tensor_class()
        say = self.setting.note

        def with_real_splits(layer: Any, inp: Any, m_splits: Any, *args: Any, **kwargs: Any) -> Any:
            if isinstance(m_splits, fake):
                rows, groups = inp.numel() // inp.shape[-1], layer.num_gemms
                m_splits = [rows // groups + (one < rows % groups) for one in range(groups)]
                note = "`GroupedLinear`: rows are split evenly, since their numbers have no values"
                say(note)
            if not isinstance(m_splits, Tensor):
                with torch_private_fakes.outside_fake_mode():
                    m_splits = tensor(m_splits, dtype=int64)
            return forward(layer, inp, m_splits, *args, **kwargs)

        self.replace(grouped, "forward", with_real_splits)

    def _keep_globals(self) -> None:
        """Restore the package's caches at the end: they contain fake tensors."""
        _clear_caches()
        for module in _ours_of(sys.modules).values():
            _restore_globals_of(module, self.on_exit)
        from transformer_engine.pytorch.quantization import FP8GlobalStateManager as Manager

        state = getattr(Manager, "quantization_state", None)
        if state is not None:
            self.replace(Manager, "quantization_state", type(state)())
        self.on_exit(_clear_caches)


def _is_compiled() -> bool:
    """Whether the compiled extension for torch is installed where the package expects it."""
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        return False
    package = Path(spec.origin).parent
    places = (package.parent, package, package / "wheel_lib")
    return any(
        path.suffix in (".so", ".dylib", ".dll", ".pyd")
        for place in places
        for path in place.glob(f"{_EXTENSION}*")
    )


def _is_replacement(extension: ModuleType) -> bool:
    return hasattr(extension, "serving")


def _ours_of(modules: dict[str, ModuleType]) -> dict[str, ModuleType]:
    """The modules of Transformer Engine and its extension."""
    return {
        name: module
        for name, module in list(modules.items())
        if name in (_PACKAGE, _EXTENSION) or name.startswith(f"{_PACKAGE}.")
    }


def _bind_to_parents(modules: dict[str, ModuleType]) -> None:
    for name, module in modules.items():
        parent, _, last = name.rpartition(".")
        if parent in sys.modules:
            setattr(sys.modules[parent], last, module)


def _unload(before: dict[str, ModuleType]) -> None:
    """Remove our module and the modules that import it from `sys.modules`, and keep them."""
    for name, module in _ours_of(sys.modules).items():
        if name in before:
            continue
        _kept[name] = module
        del sys.modules[name]
        parent, _, last = name.rpartition(".")
        if parent in before and vars(before[parent]).get(last) is module:
            delattr(before[parent], last)


def _functions() -> Iterator[Any]:
    seen: set[int] = set()
    for module in _ours_of(sys.modules).values():
        for value in list(vars(module).values()):
            if callable(value) and id(value) not in seen:
                seen.add(id(value))
                yield value


def _compiled_later() -> Iterator[Any]:
    """Functions that compile themselves with `torch.compile` at their first call."""
    for function in _functions():
        code = getattr(function, "__code__", None)
        if code is not None and "compiled_func" in code.co_freevars:
            yield function


def _clear_caches() -> None:
    """Clear each `functools.lru_cache`: they keep GPU properties and workspaces."""
    for function in _functions():
        clear = getattr(function, "cache_clear", None)
        if callable(clear) and hasattr(function, "cache_info"):
            clear()


def _restore_globals_of(module: ModuleType, on_exit: Callable[[Callable[[], None]], None]) -> None:
    names = vars(module)
    before = {
        name: value
        for name, value in names.items()
        # All modules share the dictionary `__builtins__`.
        if not name.startswith("__") and not isinstance(value, ModuleType)
    }
    contents = {name: type(value)(value) for name, value in before.items() if _is_plain(value)}

    def restore() -> None:
        for name, value in before.items():
            if name in contents:
                value.clear()
                (value.update if isinstance(value, dict) else value.extend)(contents[name])
            if names.get(name) is not value:
                names[name] = value

    on_exit(restore)


def _is_plain(value: Any) -> bool:
    return type(value) in (dict, list)
