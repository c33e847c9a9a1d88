"""Every exception of a signal handler reaches the program, wherever the recorder is at work."""

from __future__ import annotations

import ctypes
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support.terminal import Terminal
from support.transparency import Case, Comparison, assert_same

from floodmark.recording.own_errors import OwnErrors

#: Trains models for as long as signals come, and counts what their handler raised.
TRAINING = """
import random, signal, sys, torch
kind = {"interrupt": KeyboardInterrupt, "timeout": TimeoutError}[sys.argv[1]]
handled = caught = 0

def handler(number, frame):
    global handled
    handled += 1
    raise kind(number)

def train():
    # A new model each time: the recorder names its modules, its gradients and the states.
    model = torch.nn.Sequential(*[torch.nn.Linear(8, 8) for _ in range(4)])
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(8):
        model(torch.ones(2, 8)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

torch.set_num_threads(1)
train()
signal.signal(signal.SIGALRM, handler)
for sent in range(1, int(sys.argv[2]) + 1):
    # torch leaves it off where the end of `no_grad` is interrupted.
    torch.set_grad_enabled(True)
    try:
        signal.setitimer(signal.ITIMER_REAL, random.uniform(0.0001, 0.006))
        while handled < sent:
            train()
        train()
    except kind:
        caught += 1
signal.signal(signal.SIGALRM, signal.SIG_IGN)
print(f"{caught} caught, {handled} raised")
"""


@pytest.mark.parametrize(
    ("kind", "options", "words"),
    [
        ("timeout", [], ["program.py"]),
        ("interrupt", ["--no-stacks"], ["-m", "program"]),
    ],
)
def test_each_of_1000_signals_raises_once(
    tmp_path: Path, kind: str, options: list[str], words: list[str]
) -> None:
    comparison = Comparison(tmp_path, Case(TRAINING))
    arguments = [*words, kind, "1000"]
    ours = ["-m", "floodmark", "run", "-q", *options, "-o", str(comparison.trace)]
    plain, recorded = comparison.start(*arguments), comparison.start(*ours, *arguments)
    expected, found = comparison.ended(plain), comparison.ended(recorded)
    assert expected.out == "1000 caught, 1000 raised\n"
    assert found == expected
    assert comparison.trace.exists()


COUNTING = """
import torch
torch.set_num_threads(1)

def train():
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 8))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    model(torch.ones(2, 8)).sum().backward()
    optimizer.step()

# The first optimizer imports libraries: one whose import is interrupted stays broken.
train()
caught = -1
while caught < 20:
    try:
        caught += 1
        print(f"caught {caught}.", flush=True)
        while True:
            train()
    except KeyboardInterrupt:
        torch.set_grad_enabled(True)
"""


def test_each_ctrl_c_in_a_terminal_interrupts(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(COUNTING)
    terminal = Terminal(
        ["run", "-q", "-o", str(tmp_path / "trace.flood"), str(program)], columns=80, lines=40
    )
    try:
        for number in range(20):
            terminal.wait_for(f"caught {number}.")
            terminal.press("\x03")
        terminal.wait_for("caught 20.")
        terminal.press("\x03")
        assert terminal.wait() == 0
    finally:
        terminal.close()


def test_signals_at_the_end_of_a_program_change_nothing(tmp_path: Path) -> None:
    # A handler that raises as often as it can, from the program's last line on.
    ended = assert_same(
        tmp_path,
        Case(
            """
            import atexit, os, signal, time
            def handler(number, frame): raise KeyboardInterrupt
            def begin():
                parent = os.getpid()
                if os.fork() == 0:
                    # Ignored by a process without a handler.
                    signal.signal(signal.SIGURG, signal.SIG_IGN)
                    for _ in range(3000):
                        if os.getppid() == parent:
                            os.kill(parent, signal.SIGURG)
                            time.sleep(0.0001)
                    os._exit(0)
                signal.signal(signal.SIGURG, handler)
            atexit.register(begin)
            print("ended", flush=True)
            """,
            # What Python's own code raises while it shuts down.
            varies=rb"(?s)(Exception ignored|Traceback).*",
        ),
    )
    assert (ended.status, ended.out) == (0, "ended\n")


def raised_by(block: Callable[[], None]) -> BaseException | None:
    """What comes out of a block in which errors of ours are suppressed."""
    try:
        with OwnErrors():
            block()
    except BaseException as error:
        return error
    return None


def test_an_error_of_ours_is_suppressed() -> None:
    def fail() -> None:
        raise ValueError("no such file")

    assert raised_by(fail) is None
    assert raised_by(lambda: {}["key"]) is None


@pytest.mark.parametrize("kind", [KeyboardInterrupt, TimeoutError, ValueError])
def test_what_a_signal_handler_raises_is_not_ours(kind: type[BaseException]) -> None:
    def handler(number: int, frame: object) -> None:
        raise kind("late")

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        assert type(raised_by(lambda: signal.raise_signal(signal.SIGUSR1))) is kind
        signal.signal(signal.SIGUSR1, lambda *called_with: handler(*called_with))
        assert type(raised_by(lambda: signal.raise_signal(signal.SIGUSR1))) is kind
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_what_another_thread_sends_is_not_ours() -> None:
    def wait() -> None:
        sent = ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(threading.get_ident()), ctypes.py_object(TimeoutError)
        )
        assert sent == 1
        while True:
            time.sleep(0)

    assert type(raised_by(wait)) is TimeoutError


#: A debugger sees every call of a Python function, and none of ours while a model trains.
TRACED = """
import sys, torch
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 8))
optimizer = torch.optim.Adam(model.parameters())

class Watched(torch.nn.Parameter):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        print(function.__name__)
        return super().__torch_function__(function, types, args, kwargs or {})

def step():
    model(torch.ones(2, 8)).sum().backward()
    optimizer.step()

seen = set()
def see(frame, event, argument):
    seen.add(frame.f_code.co_filename)
step()
model[0].weight = Watched(torch.ones(8, 8))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
sys.setprofile(see)
for _ in range(3):
    step()
sys.setprofile(None)
print("seen:", sorted(name for name in seen if "floodmark" in name and "torch" not in name))
"""


def test_no_code_of_ours_runs_while_a_model_trains(tmp_path: Path) -> None:
    ended = assert_same(tmp_path, Case(TRACED))
    assert "seen: []" in ended.out
    assert sys.getprofile() is None
