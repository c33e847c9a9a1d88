"""Cells of a notebook: `%load_ext floodmark`, then `%%floodmark` and `%%estimate`.

Talks to: IPython's shell. From `%load_ext` on, the file name of a cell's code is `cell [3]`, so a
line of it is `cell [3]:5` in every report, in the trace and on the page. `%unload_ext` restores the
names that Jupyter's debugger needs.
"""

from __future__ import annotations

import argparse
import ast
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

from IPython.core.error import UsageError
from IPython.display import display

import floodmark

Magic = Callable[[str, str], None]
MAGICS = ("floodmark", "estimate")


class _Options(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}\n\n{self.format_usage()}")


class _CellNames:
    """Replaces a method of IPython's compiler that returns the file name of a cell's code."""

    def __init__(self, compiler: Any) -> None:
        self._compiler = compiler
        self.number = 0
        """The number of the last compiled cell: the one that runs."""

    def __call__(self, raw_code: str, transformed_code: str, number: int) -> str:
        if number:
            self.number = number
            return f"cell [{number}]"
        original = type(self._compiler).get_code_name
        name: str = original(self._compiler, raw_code, transformed_code, number)
        return name


def load(shell: Any) -> None:
    """Add the magics, and name the code of cells by their numbers."""
    names = _CellNames(shell.compile)
    shell.compile.get_code_name = names
    for name, magic in _magics(shell, names).items():
        shell.register_magic_function(magic, "cell", name)


def unload(shell: Any) -> None:
    """Remove the magics, and restore the names of code."""
    vars(shell.compile).pop("get_code_name", None)
    for name in MAGICS:
        shell.magics_manager.magics["cell"].pop(name, None)


def _magics(shell: Any, names: _CellNames) -> dict[str, Magic]:
    def record(line: str, cell: str) -> None:
        """Record the cell, and show what filled the memory and the page of the trace."""
        options = _record_options(line)
        recording = floodmark.trace(options.output)

        def show() -> None:
            if recording.trace.summary()["failed_requests"]:
                display(recording.oom())
            display(recording.report(by=options.by, top=options.top))
            if not options.no_page:
                display(floodmark.view(recording))

        with _shown_at_end(show), recording:
            if options.name:
                shell.user_ns[options.name] = recording
            value = _run(shell, names.number, f"%%floodmark {line}", cell)
            if value is not None:
                display(value)

    def estimate(line: str, cell: str) -> None:
        """Run the cell on a simulated GPU, and show whether it fits."""
        options = _estimate_options(line)
        found = floodmark.estimate(gpu=options.gpu, engine=options.engine)
        with _shown_at_end(lambda: display(found.estimate)), found:
            if options.name:
                shell.user_ns[options.name] = found
            _run(shell, names.number, f"%%estimate {line}", cell)

    return dict(zip(MAGICS, (record, estimate), strict=True))


@contextmanager
def _shown_at_end(show: Callable[[], None]) -> Iterator[None]:
    """Call `show` after the block, also if it raises: the shell then shows the traceback."""
    try:
        yield
    except BaseException:
        # The exception of the cell is more important than one of `show`.
        with suppress(Exception):
            show()
        raise
    show()


def _record_options(line: str) -> argparse.Namespace:
    options = _Options("%%floodmark", add_help=False)
    options.add_argument("name", nargs="?", help="variable that gets the recording")
    options.add_argument("-o", "--output", help="path of the trace")
    options.add_argument("--by", default="line")
    options.add_argument("--top", type=int, default=10)
    options.add_argument("--no-page", action="store_true")
    return options.parse_args(shlex.split(line))


def _estimate_options(line: str) -> argparse.Namespace:
    options = _Options("%%estimate", add_help=False)
    options.add_argument("name", nargs="?", help="variable that gets the estimate")
    options.add_argument("--gpu", default="h200")
    # The phantom would stay until Jupyter's kernel ends.
    options.add_argument("--engine", default="fake", choices=("fake", "phantom"))
    return options.parse_args(shlex.split(line))


def _run(shell: Any, number: int, magic: str, cell: str) -> Any:
    """Run the body of a cell like the shell; returns the value of its last expression.

    A comment replaces the line of the magic, so lines keep their numbers. Exceptions pass to the
    shell, which shows them and fails the cell.
    """
    source = shell.transform_cell(f"# {magic}\n{cell}")
    name = shell.compile.cache(source, number, raw_code=source)
    tree = shell.transform_ast(shell.compile.ast_parse(source, filename=name))
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(shell.compile(tree, name, "exec"), shell.user_ns)
    if last is None:
        return None
    return eval(shell.compile(ast.Expression(last.value), name, "eval"), shell.user_ns)
