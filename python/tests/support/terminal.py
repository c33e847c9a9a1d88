"""A terminal that a test looks at: a program in a pty, and the screen that it has drawn."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Sequence

import pyte

from support.programs import PATIENCE


class Terminal:
    """A program on a terminal of its own."""

    def __init__(
        self,
        words: Sequence[str],
        columns: int,
        lines: int,
        blocked: Sequence[signal.Signals] = (),
        **environment: str,
    ) -> None:
        self._blocked = blocked
        self._screen = pyte.Screen(columns, lines)
        self._stream = pyte.ByteStream(self._screen)
        #: All that the program wrote.
        self.written = b""
        self._master, self._slave = pty.openpty()
        self._set_size(columns, lines)
        self.settings = termios.tcgetattr(self._slave)
        inherited = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "floodmark", *words],
            stdin=self._slave,
            stdout=self._slave,
            stderr=self._slave,
            env={**inherited, "TERM": "xterm-256color", **environment},
            # Ctrl-C and a change of the size go to who has the terminal.
            preexec_fn=self._take,
        )

    def _take(self) -> None:
        os.setsid()
        signal.pthread_sigmask(signal.SIG_BLOCK, self._blocked)
        fcntl.ioctl(self._slave, termios.TIOCSCTTY, 0)

    def _set_size(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def resize(self, columns: int, lines: int) -> None:
        """What a user does with a mouse."""
        self._screen.resize(lines, columns)
        self._set_size(columns, lines)

    def press(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def read(self, seconds: float) -> None:
        """Take what comes within a time."""
        ready, _, _ = select.select([self._master], [], [], seconds)
        if ready:
            try:
                data = os.read(self._master, 1 << 16)
            except OSError:
                return
            self.written += data
            self._stream.feed(data)

    @property
    def text(self) -> str:
        """The screen, line by line."""
        return "\n".join(line.rstrip() for line in self._screen.display)

    def wait_for(self, is_there: str | Callable[[str], bool]) -> str:
        """The screen, once a text is on it."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            text = self.text
            if is_there in text if isinstance(is_there, str) else is_there(text):
                return text
            self.read(0.1)
        raise AssertionError(f"never came: {is_there!r}\n{self.text}")

    def wait(self) -> int:
        """The exit status."""
        end = time.monotonic() + PATIENCE
        while self.process.poll() is None and time.monotonic() < end:
            self.read(0.05)
        while select.select([self._master], [], [], 0)[0]:
            before = len(self.written)
            self.read(0)
            if len(self.written) == before:
                break
        return self.process.wait(PATIENCE)

    def is_restored(self) -> bool:
        """Whether the terminal is as it was: its settings, its screen, its cursor."""
        last = self.written.rfind(b"\x1b[?1049l")
        return (
            termios.tcgetattr(self._slave) == self.settings
            and last > self.written.rfind(b"\x1b[?1049h")
            and self.written.rfind(b"\x1b[?25h") > self.written.rfind(b"\x1b[?25l")
        )

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._master)
        os.close(self._slave)
