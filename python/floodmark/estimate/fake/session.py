"""The session of the fake tensor engine: one run of a program.

Sees: the machine that is simulated. Talks to: `engine`, the plugins, and the phantom's library,
through which a CUDA build of torch finds the devices.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from floodmark import _core, plugins
from floodmark.estimate.device import current_gpu, library
from floodmark.estimate.engine_session import EngineSession
from floodmark.estimate.fake import torch_cuda
from floodmark.estimate.outcome import Outcome
from floodmark.plugins import Plugin, Setting
from floodmark.recording import window

if TYPE_CHECKING:
    from floodmark.reports.answer_types import DeviceInfo, Phantom, PhantomDevice

#: The open sessions, the innermost last.
_open: list[FakeSession] = []


def open_session() -> FakeSession | None:
    """The innermost open session of fake tensors in this process, or None."""
    return _open[-1] if _open else None


class FakeSession(EngineSession):
    """Enters the engine and the plugins around a program of fake tensors."""

    def __init__(
        self,
        machine: _core.PhantomMachine,
        without: Iterable[str],
        *,
        is_bounded: bool = True,
        more: Iterable[type[Plugin]] = (),
    ) -> None:
        super().__init__(Outcome())
        self._machine = machine
        self._without = tuple(without)
        # The program's own plugins come after the installed ones.
        self._more = tuple(more)
        self._is_bounded = is_bounded
        self._name = f"{machine.name} (fake tensors)"
        self._reads: Any = None
        self.engine: Any = None
        self.setting = Setting(
            engine="fake",
            gpus=machine.gpus,
            world=machine.world,
            rank=machine.rank,
            notes=[
                "Workspaces and buffers of kernels are modelled; kernels without a rule are missing"
            ],
        )
        #: Whether torch finds the devices through the phantom's library; otherwise Python adds
        #: them.
        self._is_shimmed = library.loaded() is not None
        if not self._is_shimmed:
            # A build without CUDA, another system, or a real GPU in use: `torch_cuda` replaces
            # functions.
            with contextlib.suppress(_core.PhantomError):
                library.load(machine)
                self._is_shimmed = True

    def __enter__(self) -> FakeSession:
        import torch

        from floodmark.estimate.fake.conversions import Conversions
        from floodmark.estimate.fake.engine import Engine
        from floodmark.estimate.fake.kernel_workspaces import Kernels
        from floodmark.estimate.fake.operator_shapes import Shapes
        from floodmark.estimate.fake.torch_plugin import Torch
        from floodmark.estimate.values.fake_reads import Reads
        from floodmark.estimate.values.fake_values import Follow

        with self._stack:
            follow = Follow(torch)
            self._reads = Reads(torch, follow, self._machine.answers)
            multiprocessors = self._machine.multiprocessors
            shapes = Shapes(torch, follow, multiprocessors)
            answers = _Answers(self._reads.operators() | shapes.operators())
            object.__setattr__(self.setting, "operators", answers)
            object.__setattr__(self.setting, "values", follow)
            self.engine = Engine(
                torch,
                capability=self._machine.capability,
                multiprocessors=multiprocessors,
                capacity=self._capacity() if self._is_bounded else None,
                answers=answers,
                follow=follow.after,
                kernels=Kernels(torch) if self._is_shimmed else None,
                config=torch_cuda.allocator_config(),
            )
            answers.changed = self.engine.operators.forget
            self._stack.callback(self.engine.close)
            self._stack.enter_context(Torch(self.setting, self.engine, follow))
            self._stack.enter_context(Conversions(self.setting, self.engine, self._reads))
            memory = torch_cuda.MemoryInfo(torch, self._machine, self.engine.libraries)
            if self._is_shimmed:
                self._stack.enter_context(torch_cuda.shown(torch, self._name, memory))
            else:
                devices = torch_cuda.Devices(self.setting, self._machine, self._name, memory)
                self._stack.enter_context(devices)
            for plugin in (*plugins.known("fake", self._without), *self._more):
                self._stack.enter_context(plugin(self.setting))
            self._stack.enter_context(self.engine)
            _open.append(self)
            self._stack.callback(_open.remove, self)
            self._leave_out_of_others()
            self._stack = self._stack.pop_all()
        return self

    def _leave_out_of_others(self) -> None:
        """Add a note to outer recordings and estimates: the block's tensors are not part of
        them."""
        window.note_fake_tensors()
        around = current_gpu.current()
        if around is not None:
            around.outcome.has_fake_tensors = True

    def level(self, device: str) -> tuple[int, int, int, int]:
        """Allocated and reserved bytes of a device, each with its peak."""
        found: tuple[int, int, int, int] = self.engine.level(device)
        return found

    def about(self, *, is_over: bool) -> Phantom:
        """The entry of the trace's header."""
        context = self._machine.context
        devices: list[PhantomDevice] = []
        for index in range(self._machine.gpus if self.engine is not None else 0):
            peak = self.level(f"cuda:{index}")[3]
            held = self.engine.libraries(f"cuda:{index}") if peak > 0 else []
            devices.append(
                {
                    "index": None,
                    "capacity": self._machine.memory,
                    "context": context,
                    "peak_driver_bytes": peak + sum(number for _, number in held),
                    "libraries_at_peak": [
                        {"library": library, "bytes": number} for library, number in held
                    ],
                }
            )
        return self.outcome.account(
            "fake",
            self._machine,
            is_over=is_over,
            devices=devices,
            reads=[] if self._reads is None else self._reads.assumed.all(),
            unsupported=[],
            notes=self.setting.notes,
        )

    def devices(self) -> list[DeviceInfo]:
        """The devices in the form of the header."""
        return [
            {
                "device": f"cuda:{index}",
                "name": self._name,
                "total_bytes": self._machine.memory,
                "compute_capability": "{}.{}".format(*self._machine.capability),
                "multiprocessors": self._machine.multiprocessors,
            }
            for index in range(self._machine.gpus)
        ]

    def block_source(self) -> _core.BlockSource:
        """The source of blocks: fake tensors, with or without torch's own CUDA devices."""
        source = _core.BlockSource
        return source.FAKE if self._is_shimmed else source.FAKE_WITHOUT_DEVICE

    def _capacity(self) -> int:
        return self._machine.memory - self._machine.context


class _Answers(dict[Any, Callable[..., Any]]):
    """Functions that replace operators; a change is reported to the engine."""

    changed: Callable[[], None] | None = None

    def __setitem__(self, func: Any, answer: Callable[..., Any]) -> None:
        super().__setitem__(func, answer)
        if self.changed is not None:
            self.changed()
