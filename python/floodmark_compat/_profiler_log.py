"""The logging of `floodmark_compat.memory_profiler`: one logger, a console and perhaps a file.

Nothing is set up by an import: the first logger that is asked for, or the first tracer, does it.
Sees: the standard output of the moment, and `rich` where it is installed. Knows nothing of memory.
"""

from __future__ import annotations

import logging
import os
import sys
from typing import Any

from floodmark.recording.recorder import say

NAME = "memory_profiler"
LEVEL_VARIABLE = "MEMORY_PROFILER_LOG_LEVEL"

_FILE_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_STYLES = {logging.DEBUG: "dim", logging.WARNING: "yellow", logging.ERROR: "red"}


def configure_logging(
    level: int | str | None = None,
    log_to_file: bool = False,
    log_file: str | os.PathLike[str] | None = None,
    rich_format: bool = True,
) -> None:
    """Set up the logging anew: from which level on, whether into a file too, and how it looks.

    A level is a number or a name, in any case. Without one it is that of the environment variable
    `MEMORY_PROFILER_LOG_LEVEL`, else INFO. A file is added to; without a name it is
    `memory_profiler.log`. With `rich_format` the console is coloured by `rich`, where that is
    installed.
    """
    chosen = _level_of_environment() if level is None else level_number(level)
    handlers: list[logging.Handler] = [_Console(_rich_console() if rich_format else None)]
    if log_to_file:
        file = logging.FileHandler(log_file or f"{NAME}.log", encoding="utf-8")
        file.setFormatter(logging.Formatter(_FILE_FORMAT))
        handlers.append(file)
    base = logging.getLogger(NAME)
    base.setLevel(chosen)
    for old in list(base.handlers):
        base.removeHandler(old)
        old.close()
    for handler in handlers:
        base.addHandler(handler)
    # The handlers of the root logger have their records too.
    base.propagate = True


def get_logger(name: str | None = None) -> logging.Logger:
    """A logger of the program's own that writes where the tracer's does."""
    base = logging.getLogger(NAME)
    if not base.handlers:
        configure_logging()
    if not name or name == NAME:
        return base
    return logging.getLogger(name if name.startswith(f"{NAME}.") else f"{NAME}.{name}")


class _Console(logging.Handler):
    """Plain words on stdout; what is no ordinary message says its level."""

    def __init__(self, console: Any) -> None:
        super().__init__()
        self._rich = console

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = self.format(record)
            if record.levelno != logging.INFO:
                text = f"{record.levelname}: {text}"
            if self._rich is None:
                print(text, file=sys.stdout)
            else:
                # Tables stay as they are: no line is broken, and no word is markup.
                style = _STYLES.get(record.levelno)
                self._rich.print(text, style=style, markup=False, emoji=False, soft_wrap=True)
        except Exception:
            self.handleError(record)


def _rich_console() -> Any:
    try:
        from rich.console import Console
    except ImportError:
        return None
    return Console()


def level_number(level: int | str) -> int:
    """The number of a level: of `20`, `"20"`, `"INFO"` or `"info"`."""
    if isinstance(level, int):
        return level
    text = level.strip()
    if text.isdigit():
        return int(text)
    number = logging.getLevelName(text.upper())
    if isinstance(number, int):
        return number
    raise ValueError(f"no such level: {level!r}; write a number or a name such as `DEBUG`")


def _level_of_environment() -> int:
    text = os.environ.get(LEVEL_VARIABLE, "")
    try:
        return level_number(text) if text.strip() else logging.INFO
    except ValueError as error:
        say(f"{LEVEL_VARIABLE}: {error}")
        return logging.INFO
