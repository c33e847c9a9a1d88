"""The blocks of `floodmark_compat.memory_profiler`: fake tensors from the beginning to the end.

A tracer inside another one, or inside an estimate with fake tensors, has no engine of its own: both
see the same tensors, as two counters of one GPU would. Sees: the block that is open. Talks to: the
estimate and its recorder.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack, nullcontext
from types import TracebackType
from typing import Any

from floodmark import _core
from floodmark.estimate import context_manager
from floodmark.estimate.fake.session import FakeSession, open_session
from floodmark.plugins import Plugin
from floodmark_compat._profiler_plugins import DEFAULTS


class InnerBlock:
    """A block inside another one: its engine, and plugins that the other one lacks."""

    def __init__(self, outer: FakeSession, more: Iterable[type[Plugin]]) -> None:
        self._outer = outer
        self._more = tuple(more)
        self._stack = ExitStack()
        self.engine = outer.engine
        self.level = outer.level
        self.about = outer.about
        self.devices = outer.devices
        self.block_source = outer.block_source

    def __enter__(self) -> InnerBlock:
        with self._stack:
            # Modes are a thread's own.
            if not self.engine.is_on():
                self._stack.enter_context(self.engine.modes())
            for plugin in self._more:
                self._stack.enter_context(plugin(self._outer.setting))
            self._stack = self._stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.close()

    def end(self, error: BaseException | None) -> None:
        """How the outer block ends is not known yet."""


class Estimating(context_manager.estimate):
    """An estimate with fake tensors, on a GPU of any size."""

    def __init__(self, plugins: tuple[type[Plugin], ...], **options: Any) -> None:
        super().__init__(engine="fake", **options)
        self._plugins = plugins

    def _must_be_outermost(self) -> None:
        """Tracers may be nested: they share one engine."""

    def _must_be_recording(self) -> None:
        """Without a recording the levels are known all the same; the tables say what is missing."""

    def _new_session(self) -> Any:
        outer = open_session()
        if outer is not None:
            own = [each for each in self._plugins if each not in DEFAULTS]
            return InnerBlock(outer, [each for each in own if each.is_installed()])
        own = [each for each in DEFAULTS if each.name not in self._without]
        more = [each for each in dict.fromkeys([*own, *self._plugins]) if each.is_installed()]
        without = {*self._without, *(each.name for each in DEFAULTS)}
        return FakeSession(self._machine, without, is_bounded=False, more=more)

    @property
    def is_inner(self) -> bool:
        """Whether the engine is another block's: its peak is not ours."""
        return isinstance(self._session, InnerBlock)

    def engine_of_block(self) -> Any:
        """What follows the tensors of the block."""
        return self._session.engine

    def peaks(self) -> dict[str, int]:
        """The peaks of the recording, by device; empty when there is none."""
        try:
            devices = self.trace.summary()["devices"]
        except (_core.FloodmarkError, OSError):
            return {}
        return {each["device"]: each["peak"] for each in devices}

    def phase(self, name: str) -> Any:
        """Name what happens inside, in this recording alone."""
        return nullcontext() if self._recorder is None else self._recorder.phase(name)
