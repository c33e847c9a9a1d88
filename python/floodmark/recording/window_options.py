"""The options, devices and sizes of a recording; the rank of this process.

Sees: arguments, the environment, and the least memory limit. Knows nothing else of the recorder.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from collections.abc import Sequence
from typing import TypeAlias

from floodmark import _core
from floodmark.recording.option_types import RecordingOptions
from floodmark.recording.own_errors import OwnErrors
from floodmark.reports.trace import DeviceLike

#: Devices to record: one, several, or all.
Devices: TypeAlias = "DeviceLike | Sequence[DeviceLike] | None"


def say(text: str) -> None:
    """Print a line to stderr."""
    say_together([text])


def say_together(lines: list[str]) -> None:
    """Print lines to stderr in one write, so that no line of another process comes between them."""
    say_text("".join(f"floodmark: {line}\n" for line in lines))


def say_text(text: str) -> None:
    """Write whole lines to stderr, without control characters for a terminal."""
    # A closed stderr must not disturb the program.
    with OwnErrors():
        text = harmless(text)
        own = sys.__stderr__
        if own is None or sys.stderr is not own:
            sys.stderr.write(text)
            sys.stderr.flush()
            return
        own.flush()
        _write(own.fileno(), text.encode(own.encoding, "backslashreplace"))


def harmless(text: str) -> str:
    """The text without control characters for a terminal, which names may contain."""
    # Bytes of a path that are not UTF-8 are lone surrogates in Python.
    return _core.terminal_safe(text.encode(errors="surrogateescape").decode(errors="replace"))


def _write(file: int, text: bytes) -> None:
    """Write without Python's buffer, which would try again at the exit, and without `SIGPIPE`,
    which ends a program that has restored its default action."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGPIPE})
    try:
        while text:
            text = text[os.write(file, text) :]
    except BrokenPipeError:
        if signal.SIGPIPE not in before:
            signal.sigtimedwait({signal.SIGPIPE}, 0)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def parse_bytes(value: int | str) -> int:
    """`268435456`, `"256MiB"` or `"1 GB"` as a number of bytes."""
    return value if isinstance(value, int) else _core.parse_size(value)


def parse_max_memory(value: int | str) -> int:
    """A memory limit in bytes; raises `ValueError` below the recorder's minimum."""
    limit = parse_bytes(value)
    if limit < _core.LEAST_MEMORY_BYTES:
        least = _core.LEAST_MEMORY_BYTES >> 20
        raise ValueError(f"max_memory is too small: {value!r}; at least {least}MiB is needed")
    return limit


def complete_options(given: RecordingOptions) -> RecordingOptions:
    """The options with defaults filled in; raises `TypeError` for an unknown one."""
    if "max_memory" in given:
        given = {**given, "max_memory": parse_max_memory(given["max_memory"])}
    options: RecordingOptions = json.loads(_core.recording_options(json.dumps(given)))
    return options


def requested_options(request: _core.RunRequest) -> RecordingOptions:
    """The recording options of a command line."""
    options: RecordingOptions = json.loads(request.recording)
    return options


def parse_devices(devices: Devices) -> tuple[bool, int]:
    """Whether to record the CPU, and a bit mask of CUDA devices."""
    if devices is None or devices == "all":
        return True, (1 << 64) - 1
    is_list = isinstance(devices, list | tuple)
    names = list(devices) if is_list else str(devices).split(",")
    cpu, cuda = False, 0
    for name in (str(name).strip() for name in names):
        found = re.fullmatch(r"cuda(?::([0-9]{1,2}))?", name)
        if name == "cpu":
            cpu = True
        elif found is None:
            raise ValueError(f"no such device: {name!r}; write `cpu`, `cuda` or `cuda:0`")
        else:
            cuda |= (1 << 64) - 1 if found[1] is None else 1 << int(found[1])
    return cpu, cuda


def rank_of_process() -> tuple[int | None, int | None, int | None]:
    """Rank, world size and local rank, as a launcher sets them."""

    def number(name: str) -> int | None:
        value = os.environ.get(name, "")
        return int(value) if value.isdigit() else None

    return number("RANK"), number("WORLD_SIZE"), number("LOCAL_RANK")
