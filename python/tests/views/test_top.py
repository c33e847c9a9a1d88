"""`floodmark top` on a real terminal, and beside a program that runs."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from support.growing import Growing
from support.programs import Programs
from support.terminal import Terminal

MIB = 1 << 20


@pytest.fixture
def growing(tmp_path: Path) -> Iterator[Growing]:
    program = Growing(tmp_path)
    yield program
    program.close()


@pytest.fixture
def terminals() -> Iterator[Callable[..., Terminal]]:
    opened: list[Terminal] = []

    def open_terminal(*words: str, columns: int = 80, lines: int = 24, **more: Any) -> Terminal:
        opened.append(Terminal(words, columns, lines, **more))
        return opened[-1]

    yield open_terminal
    for terminal in opened:
        terminal.close()


@pytest.fixture
def finished(record: Callable[..., object]) -> str:
    with record(devices="cpu") as recorded:
        model = torch.nn.Linear(64, 64)
        model(torch.ones(8, 64)).sum().backward()
    return str(recorded.path)


def test_top_draws_reacts_to_keys_and_gives_the_terminal_back(
    finished: str, terminals: Callable[..., Terminal]
) -> None:
    terminal = terminals("top", finished)
    # A screen is drawn piece by piece.
    wanted = ("test_top.py:", "[1 Lines]", "finished", "Peak of cpu: ")
    terminal.wait_for(
        lambda text: all(word in text for word in wanted) and "q quit" in text.split("\n")[23]
    )
    terminal.press("\t")
    terminal.wait_for("[2 Modules]")
    terminal.press("3")
    terminal.wait_for(lambda text: "[3 Categories]" in text and "parameter" in text)
    terminal.press("1/linear")
    terminal.wait_for("filter: linear")
    terminal.press("\r")
    terminal.wait_for(lambda text: re.search(r"\d+ of \d+ with “linear”", text) is not None)
    terminal.press("\x1b[D")
    terminal.wait_for("Memory of cpu: ")
    terminal.press("?")
    terminal.wait_for("any key closes this")
    terminal.press("x")
    terminal.wait_for("[1 Lines]")
    terminal.press("q")
    assert terminal.wait() == 0
    assert terminal.is_restored()
    assert b"error" not in terminal.written


def test_top_follows_the_size_of_the_terminal(
    finished: str, terminals: Callable[..., Terminal]
) -> None:
    terminal = terminals("top", finished)
    terminal.wait_for("[1 Lines]")
    terminal.resize(120, 40)
    terminal.wait_for(
        lambda text: (
            any(line.endswith("Category") for line in text.splitlines())
            and "q quit" in text.split("\n")[39]
        )
    )
    terminal.resize(20, 5)
    terminal.wait_for("has 20×5")
    terminal.resize(80, 24)
    terminal.wait_for("[1 Lines]")
    terminal.press("\x1b")
    assert terminal.wait() == 0
    assert terminal.is_restored()


def test_top_follows_a_change_of_size_that_it_gets_no_signal_of(
    finished: str, terminals: Callable[..., Terminal]
) -> None:
    terminal = terminals("top", finished, blocked=[signal.SIGWINCH])
    terminal.wait_for("[1 Lines]")
    terminal.resize(20, 5)
    terminal.wait_for("has 20×5")


def test_a_signal_gives_the_terminal_back(
    finished: str, terminals: Callable[..., Terminal]
) -> None:
    terminal = terminals("top", finished)
    terminal.wait_for("[1 Lines]")
    assert not terminal.is_restored()
    terminal.process.send_signal(signal.SIGTERM)
    assert terminal.wait() == -signal.SIGTERM
    assert terminal.is_restored()


def test_colours_are_left_out_on_request(finished: str, terminals: Callable[..., Terminal]) -> None:
    colour = re.compile(rb"\x1b\[[0-9;]*[34]8[;:]5")
    plain = terminals("top", finished, NO_COLOR="1")
    plain.wait_for("q quit")
    assert colour.search(plain.written) is None
    coloured = terminals("top", finished)
    coloured.wait_for(lambda _: colour.search(coloured.written) is not None)


def test_top_grows_with_a_program_that_runs(
    growing: Growing, terminals: Callable[..., Terminal]
) -> None:
    growing.take(4 * MIB)
    terminal = terminals("top", str(growing.path), "--interval", "0.1")
    terminal.wait_for(
        lambda text: "Now on cpu: 4.000 MiB allocated" in text and "● recording" in text
    )
    growing.take(3 * MIB)
    terminal.wait_for("Now on cpu: 7.000 MiB allocated")
    terminal.press(" ")
    terminal.wait_for("paused")
    growing.take(MIB)
    terminal.press(" ")
    terminal.wait_for("Now on cpu: 8.000 MiB allocated")
    growing.end()
    terminal.wait_for("finished")
    terminal.press("q")
    assert terminal.wait() == 0


def test_top_notices_that_the_program_was_killed(
    growing: Growing, terminals: Callable[..., Terminal]
) -> None:
    growing.take(4 * MIB)
    terminal = terminals("top", str(growing.path), "--interval", "0.1")
    terminal.wait_for("● recording")
    growing.kill()
    terminal.wait_for(lambda text: "not finished" in text and "Peak of cpu: 4.000 MiB" in text)
    terminal.press("q")
    assert terminal.wait() == 0


def test_one_frame_shows_growth_and_then_that_the_recorder_stopped(
    growing: Growing, programs: Programs
) -> None:
    def once() -> str:
        done = programs.floodmark("top", "--once", str(growing.path))
        assert done.returncode == 0, done.stderr
        return str(done.stdout)

    growing.take(4 * MIB)
    before = once()
    growing.take(4 * MIB)
    after = once()
    assert "● recording" in before
    assert "!" not in before
    assert "Now on cpu: 4.000 MiB allocated" in before
    assert "Now on cpu: 8.000 MiB allocated" in after
    assert "\x1b" not in after
    growing.kill()
    killed = once()
    assert "not finished" in killed
    assert "Peak of cpu: 8.000 MiB allocated" in killed


def test_without_a_terminal_the_way_out_is_named(finished: str, programs: Programs) -> None:
    done = programs.floodmark("top", finished)
    assert done.returncode == 1
    assert "hint: `--once` writes one frame as text" in done.stderr


def test_top_shows_all_ranks_of_a_folder_and_the_rows_of_one(
    record: Callable[..., Any], tmp_path: Path, terminals: Callable[..., Terminal]
) -> None:
    folder = tmp_path / "ranks"
    folder.mkdir()
    for rank, size in enumerate((1 << 20, 3 << 20)):
        with record(devices="cpu") as recorded:
            torch.ones(size)
        Path(recorded.path).rename(folder / f"rank-{rank:04}.flood")
    terminal = terminals("top", str(folder))
    terminal.wait_for(lambda text: "rank 1  finished" in text and "▸  1" in text)
    terminal.press("r")
    terminal.wait_for(lambda text: "rank 0  finished" in text and "▸  0" in text)
    # A rank that joins is seen without a key.
    with record(devices="cpu") as recorded:
        torch.ones(9 << 20)
    Path(recorded.path).rename(folder / "rank-0002.flood")
    terminal.wait_for(lambda text: " 2 █" in text)
    terminal.press("q")
    assert terminal.wait() == 0
