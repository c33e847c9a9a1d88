"""`floodmark.estimate`: the memory that a block would need on a GPU.

Sees: the block. Talks to: `engine_choice`, and the recorder.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from floodmark import _core
from floodmark.recording import window
from floodmark.recording.recorder import Recorder, parse_bytes
from floodmark.reports.trace import DeviceLike, Estimate, Moment, Report, Trace

if TYPE_CHECKING:
    from floodmark.reports import answer_types
    from floodmark.reports.answer_types import Engine

ENGINES = ("phantom", "fake")


class estimate:
    """Simulate a GPU for a block, and estimate the memory that the block needs.

        with floodmark.estimate(gpu="h100") as est:
            model = Model().cuda()
            model(batch.cuda()).sum().backward()
        print(est)

    `engine` is `"phantom"` (torch's own host code and allocator, exact; needs a CUDA build of torch
    on Linux, and stays until the process ends) or `"fake"` (fake tensors, any build, gone after the
    block). The default is the phantom where it works. Computed values are meaningless with both.
    With `ops` the names of operators are recorded, for `trace.op_calls()`; with fake tensors they
    always are.
    """

    def __init__(
        self,
        device: DeviceLike = "cuda",
        *,
        engine: Engine | None = None,
        gpu: str | os.PathLike[str] = "h200",
        memory: int | str | None = None,
        gpus: int | None = None,
        world: int | None = None,
        rank: int = 0,
        without: Iterable[str] = (),
        answers: Mapping[str, float] | None = None,
        ops: bool = False,
        path: str | os.PathLike[str] | None = None,
    ) -> None:
        if engine not in (None, *ENGINES):
            raise ValueError(f"no such engine: {engine!r}; write `phantom` or `fake`")
        if world is not None and not 0 <= rank < world:
            raise ValueError(f"there is no rank {rank} in a world of {world}")
        self.device = str(device)
        self._wanted = engine
        self._without = tuple(without)
        if self._without:
            # Plugins import `threading`, which a recorded program may not have imported.
            from floodmark.plugins import check_names

            check_names(self._without)
        self._ops = ops
        self._path = None if path is None else Path(path)
        self._machine = _core.PhantomMachine(
            os.fspath(gpu),
            memory=None if memory is None else parse_bytes(memory),
            gpus=gpus or min(world or 1, 8),
            ranks=None if world is None else (rank, world),
            answers=[f"{place}={value}" for place, value in (answers or {}).items()],
        )
        self._stack = ExitStack()
        self._recorder: Recorder | None = None
        self._session: Any = None
        #: The engine in use; None before the block.
        self.engine: Engine | None = None

    def __enter__(self) -> estimate:
        from floodmark.estimate.phantom.session import PhantomSession

        with self._stack:
            self._session = self._new_session()
            is_phantom = isinstance(self._session, PhantomSession)
            self.engine = "phantom" if is_phantom else "fake"
            if not is_phantom:
                self._must_be_outermost()
            fake_gpu = None if is_phantom else self._session
            self._recorder = Recorder(self._path, ops=self._ops, fake_gpu=fake_gpu)
            self._stack.enter_context(self._recorder)
            self._must_be_recording()
            self._stack.enter_context(self._session)
            # Everything succeeded: `__exit__` undoes it.
            self._stack = self._stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._session is not None:
            self._session.end(error)
        self._stack.close()

    def _new_session(self) -> Any:
        from floodmark.estimate.engine_choice import session_for

        return session_for(self._machine, self._wanted, self._without)

    def _must_be_outermost(self) -> None:
        """Raise inside another estimate with fake tensors: these cannot be nested."""
        if window.has_fake_tensors():
            raise _core.FloodmarkError(
                "cannot estimate: an estimate with fake tensors is open already\n\n"
                "hint: end it first"
            )

    def _must_be_recording(self) -> None:
        """Raise if the recorder failed: without it there is no estimate."""
        if self._recorder is not None and self._recorder.failure:
            raise _core.FloodmarkError(f"cannot estimate: {self._recorder.failure}")

    @property
    def trace(self) -> Trace:
        """The trace of the block."""
        if self._recorder is None:
            raise _core.FloodmarkError("the estimate has not begun")
        return self._recorder.trace

    @property
    def estimate(self) -> Estimate:
        """Whether the block fits, what it needs, and the assumptions of the answer."""
        return self.trace.estimate()

    def peak(self, device: DeviceLike | None = None) -> Moment:
        """The time of the peak."""
        return self.trace.peak(device)

    def report(self, **question: Any) -> Report[answer_types.Row]:
        """See `Trace.report`."""
        return self.trace.report(**question)

    def level(self, device: DeviceLike | None = None) -> tuple[int, int, int, int]:
        """Allocated and reserved bytes so far, each with its peak; works inside the block."""
        found: tuple[int, int, int, int] = self._session.level(str(device or self.device))
        return found

    def __str__(self) -> str:
        if self._recorder is None:
            return "an estimate that has not begun"
        return str(self.estimate)
