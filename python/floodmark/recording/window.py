"""A recording: a window on the events of the one recorder of the process.

Windows may be nested, overlap and be open on several threads. Each has its own start, end, devices,
options, trace and, if requested, file. An open window can be read.

Sees: the process. Talks to: `_core`, `torch_hooks`. Knows nothing of files' contents.

Nothing here raises into the running program: each part that cannot be recorded gets one warning, on
stderr and in the trace.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import socket
import sys
from pathlib import Path

# Not from `os`, where a program may replace it.
from posix import getpid
from typing import TYPE_CHECKING

from floodmark import _core, own_code
from floodmark.recording import gpu_account, header_facts
from floodmark.recording.frame_layout import choose_way
from floodmark.recording.gpu_account import FakeGpuAccount
from floodmark.recording.option_types import RecordingOptions
from floodmark.recording.own_errors import OwnErrors
from floodmark.recording.torch_hooks import Attachment, attachment_of
from floodmark.recording.window_options import (
    rank_of_process,
)

if TYPE_CHECKING:
    from floodmark.reports import answer_types


#: The note of a recording around a block of fake tensors.
_FAKE = (
    "tensors in blocks of fake tensors are not recorded here: the block has a recording of its own"
)

#: The open windows of this process, in the order in which they were opened.
_open: list[Window] = []


@functools.lru_cache(maxsize=4)
def _about_process(pid: int) -> dict[str, str | int]:
    """The facts about this process for the header of every window."""
    return {
        "floodmark": _core.__version__,
        "pid": pid,
        "host": socket.gethostname(),
        # `platform` would import `threading` on Python 3.10.
        "python": sys.version.split()[0],
    }


_ways: dict[str | None, tuple[bool, str]] = {}


def _way_of_stacks() -> tuple[bool, str]:
    """How stacks are read: checked once per process."""
    setting = os.environ.get("FLOODMARK_STACKS")
    if setting not in _ways:
        _ways[setting] = choose_way()
    return _ways[setting]


class Window:
    """An open window, until `close`."""

    def __init__(
        self,
        path: Path | None,
        spill: Path,
        *,
        cpu: bool,
        cuda: int,
        options: RecordingOptions,
        replace: _core.MayReplace,
        fake_gpu: FakeGpuAccount | None = None,
    ) -> None:
        self.pid = getpid()
        # Inside an estimate with fake tensors, the program has only fake tensors.
        own = [window for window in _open if window.pid == self.pid]
        self._fake_gpu: FakeGpuAccount | None = fake_gpu or (own[-1]._fake_gpu if own else None)
        self._recorded: list[str] = []
        self._not_recorded: list[str] = []
        self._rank = rank_of_process()
        self._cut_before, _ = _core.cut_stacks()
        self._phantom: answer_types.Phantom | None = None
        self._attachment: Attachment | None = None
        stacks, ops = options["stacks"], options["ops"]
        if stacks:
            stacks, remark = _way_of_stacks()
            self._not_recorded.extend([remark] if remark else [])
        if stacks:
            self._recorded.append("stacks")
        is_fake = self._fake_gpu is not None
        if is_fake:
            self._recorded += ["ops", "segments"]
        # Written at once: the trace of a killed program must not look like that of a real GPU.
        self._note_simulated_gpu(is_over=False)
        self.core = _core.Window(
            None if path is None else os.fspath(path),
            spill=os.fspath(spill),
            replace=replace,
            cpu=cpu,
            cuda=cuda,
            source=self._block_source(),
            recording=json.dumps({**options, "stacks": stacks, "ops": ops and not is_fake}),
            header=self._header(),
            own_folders=list(own_code.FOLDERS),
        )
        _open.append(self)
        self._wants_ops = ops and not is_fake
        try:
            self._attachment = attachment_of(self.core, is_fake=is_fake)
            self._not_recorded += self._attachment.open(
                self.core, cpu=cpu, cuda=cuda, listener=self._update
            )
            self._attach_ops()
            self._update()
        except BaseException:
            self.close()
            raise

    def _block_source(self) -> _core.BlockSource:
        return _core.BlockSource.TORCH if self._fake_gpu is None else self._fake_gpu.block_source()

    def _attach_ops(self) -> None:
        if self._wants_ops and self._attachment is not None and self._attachment.has_torch:
            self._wants_ops = False
            if _core.attach_ops():
                self._recorded.append("ops")
            else:
                self._not_recorded.append(
                    "operators are not seen: this build of torch does not report"
                )

    def _header(self) -> str:
        rank, world_size, local_rank = self._rank
        header: dict[str, object] = {
            **_about_process(self.pid),
            "command": list(getattr(sys, "orig_argv", sys.argv)),
            "rank": rank,
            "world_size": world_size,
            "local_rank": local_rank,
            "allocator_conf": os.environ.get("PYTORCH_CUDA_ALLOC_CONF")
            or os.environ.get("PYTORCH_ALLOC_CONF", ""),
            "recorded": self._recorded,
            "not_recorded": self._not_recorded,
        }
        attachment = self._attachment
        if attachment is not None:
            header |= attachment.facts
            header["recorded"] = self._recorded + [
                what for what in attachment.recorded if what not in self._recorded
            ]
            header["not_recorded"] = attachment.not_recorded + self._not_recorded
        if self._fake_gpu is not None:
            header["allocator_backend"] = "native"
            header["devices"] = self._fake_gpu.devices()
        if self._phantom is not None:
            header["phantom"] = self._phantom
        header |= header_facts.collected()
        # A command line that is not UTF-8 becomes surrogates in Python, which JSON cannot have.
        text = json.dumps(header, ensure_ascii=False)
        return text.encode(errors="surrogateescape").decode(errors="replace")

    def _update(self) -> None:
        self._attach_ops()
        self.core.update_header(self._header())

    def _note_simulated_gpu(self, *, is_over: bool) -> None:
        simulated = self._fake_gpu or gpu_account.registered()
        if simulated is not None:
            self._phantom = simulated.about(is_over=is_over)

    def _note_cut_stacks(self) -> None:
        cut, deepest = _core.cut_stacks()
        if cut > self._cut_before:
            self._not_recorded.append(
                f"call stacks of more than {deepest:,} frames have their innermost {deepest:,} only"
            )

    def refresh(self) -> None:
        """Write the current state of the simulated GPU into the trace."""
        self._note_simulated_gpu(is_over=False)
        self._update()

    def set_rank(self, rank: int, world_size: int) -> None:
        """Set the rank of this process if its environment has none."""
        if self._rank[0] is None:
            self._rank = rank, world_size, self._rank[2]
            self._update()

    def close(self) -> None:
        """Close the window. Its file, if any, is complete when `core.written` returns."""
        if self in _open:
            _open.remove(self)
        try:
            with OwnErrors():
                if self._attachment is not None:
                    self._attachment.close(self._update)
            with OwnErrors():
                self._note_cut_stacks()
                self._note_simulated_gpu(is_over=True)
                self._update()
        finally:
            self.core.close()


def note_fake_tensors() -> None:
    """Add the note about blocks of fake tensors to every recording of real tensors."""
    for one in _open:
        if one.pid == os.getpid() and one._fake_gpu is None and _FAKE not in one._not_recorded:
            one._not_recorded.append(_FAKE)
            one._update()


def has_fake_tensors() -> bool:
    """Whether a window on the blocks of fake tensors is open."""
    return any(one._fake_gpu is not None for one in _open if one.pid == getpid())


def forget_windows() -> bool:
    """In a fork: drop the parent's windows. Returns whether there were any."""
    had = bool(_open)
    _open.clear()
    return had


def _end() -> None:
    """Close the windows that the program left open. Hooks may outlive the last window."""
    for window in [one for one in _open if one.pid == getpid()]:
        window.close()
        window.core.written()
    _core.disarm()


atexit.register(_core.call_on_own_thread, _end)
