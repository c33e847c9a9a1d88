"""Plugins: patches that a library needs in order to run under an estimate.

A plugin is a context manager. It is entered before the block of an estimate and left after it, also
when the block raises, and then undoes its patches. `docs/guides/plugins.md` shows how to write one.
Sees: which libraries are installed. Knows nothing of memory.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from types import ModuleType, TracebackType
from typing import Any, ClassVar

from floodmark.recording.import_watch import ImportWatch
from floodmark.recording.undoable import Undoable
from floodmark.world.replaced_names import replace_in_modules

#: The entry point group of other packages' plugins: `name = "package.module:Class"`.
ENTRY_POINTS = "floodmark.plugins"

#: floodmark's own plugins; each module is imported if its library is installed.
_OURS: tuple[str, ...] = (
    "floodmark.plugins.distributed:Distributed",
    "floodmark.plugins.megatron:Megatron",
    "floodmark.plugins.safetensors:Safetensors",
    "floodmark.plugins.transformer_engine:TransformerEngine",
    "floodmark.plugins.transformers:Transformers",
)


@dataclass(frozen=True)
class Setting:
    """The estimate for which a plugin patches a library."""

    engine: str
    """`fake` or `phantom`."""
    gpus: int = 1
    world: int | None = None
    rank: int | None = None
    notes: list[str] = field(default_factory=list)
    """Notes for the answer: what is assumed or left out."""
    operators: dict[Any, Callable[..., Any]] = field(default_factory=dict)
    """With the engine `fake`: functions that replace an operator (an `OpOverload`). Called as
    `answer(func, args, kwargs)` outside our mode and inside torch's fake mode."""
    values: Any = None
    """With the engine `fake`: the known values. `value_of(tensor)` returns the real tensor with the
    value of a fake one, or None; `give(tensor, real)` sets the value of a fake one."""

    def note(self, what: str) -> bool:
        """Add a note about an assumption; returns whether it is new."""
        is_new = what not in self.notes
        if is_new:
            self.notes.append(what)
        return is_new


class Plugin(Undoable):
    """The base of every plugin: describe it by class attributes, patch in `attach`."""

    #: The name for `without=` and in notes of an estimate.
    name: ClassVar[str]
    #: The module whose import calls `attach`. A library that is not installed is skipped.
    library: ClassVar[str]
    #: The engines that need it.
    engines: ClassVar[frozenset[str]] = frozenset({"fake"})
    #: Whether an estimate is impossible without it.
    is_required: ClassVar[bool] = False

    def __init__(self, setting: Setting) -> None:
        super().__init__()
        self.setting = setting
        self._watches: list[ImportWatch] = []

    @classmethod
    def is_installed(cls) -> bool:
        """Whether its library is installed. Does not import it."""
        top = cls.library.partition(".")[0]
        try:
            return importlib.util.find_spec(top) is not None
        except (ImportError, ValueError):
            return False

    def attach(self, library: ModuleType) -> None:
        """Patch the imported library, with `replace` and `on_exit`."""
        raise NotImplementedError

    def replace_everywhere(self, owner: ModuleType, name: str, value: Any) -> Any:
        """`replace`, also in modules that imported the name, before the block or in it."""
        before = getattr(owner, name)
        replace_in_modules([(before, value)])
        # Modules that were imported in the block have the replacement, and must get the original
        # back.
        self.on_exit(lambda: replace_in_modules([(value, before)]))
        return before if vars(owner).get(name) is value else self.replace(owner, name, value)

    def when_imported(self, module: str, attach: Callable[[ModuleType], None]) -> None:
        """Call `attach` once `module` is imported, now or later."""
        self._watches.append(ImportWatch(module, attach))

    def __enter__(self) -> Plugin:
        self.when_imported(self.library, self._attach)
        return self

    def _attach(self, library: ModuleType) -> None:
        """Call `attach`; if it fails, undo its patches and add a note."""
        try:
            self.attach(library)
        except Exception as error:
            with contextlib.suppress(Exception):
                self.__exit__(type(error), error, None)
            if self.is_required:
                raise
            self.setting.notes.append(
                f"The plugin `{self.name}` failed, and was left out: {error!r}"
            )

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for watch in self._watches:
            watch.stop()
        self._watches.clear()
        failure = self.undo_all()
        if failure is not None and error is None:
            raise failure


def known(engine: str, without: Iterable[str] = ()) -> list[type[Plugin]]:
    """The plugins for `engine` whose libraries are installed, floodmark's own first."""
    left_out = set(without)
    return [
        plugin
        for plugin in _all().values()
        if engine in plugin.engines and plugin.name not in left_out and plugin.is_installed()
    ]


def check_names(names: Iterable[str]) -> None:
    """Raise `ValueError` for a name that no plugin has."""
    wrong = [name for name in names if name not in (plugins := _all())]
    if wrong:
        listed = ", ".join(f"`{name}`" for name in plugins)
        raise ValueError(f"no such plugin: {wrong[0]!r}; there are {listed}")


def _all() -> dict[str, type[Plugin]]:
    """Every plugin by its name, floodmark's own first."""
    found: dict[str, type[Plugin]] = {}
    for place in _OURS:
        module, _, name = place.partition(":")
        plugin = getattr(importlib.import_module(module), name)
        found[plugin.name] = plugin
    for point in entry_points(group=ENTRY_POINTS):
        plugin = point.load()
        found[plugin.name] = plugin
    return found
