"""Signals reach a program as they would, with and without the recorder."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from support.transparency import Case, Comparison, assert_same

#: A program that waits for a signal, and the signals that it gets.
SIGNALS = {
    "SIGINT": ("", [signal.SIGINT]),
    "SIGTERM": ("", [signal.SIGTERM]),
    "SIGHUP": ("", [signal.SIGHUP]),
    "SIGUSR1": ("", [signal.SIGUSR1]),
    "SIGQUIT": ("import faulthandler; faulthandler.enable()", [signal.SIGQUIT]),
    "SIGSEGV": ("import faulthandler; faulthandler.enable(); signal.raise_signal(11)", []),
    "a handler": (
        "signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(frame.f_lineno))",
        [signal.SIGTERM],
    ),
    "ignored": (
        "signal.signal(signal.SIGINT, signal.SIG_IGN)",
        [signal.SIGINT, signal.SIGTERM],
    ),
    "faulthandler": (
        "import faulthandler; faulthandler.register(signal.SIGUSR1, chain=True)",
        [signal.SIGUSR1],
    ),
    "caught": (
        "try:\n    wait()\nexcept KeyboardInterrupt:\n    print('caught', flush=True)",
        [signal.SIGINT, signal.SIGINT],
    ),
}


#: The signal is delivered at the last line of `wait`, however late it comes.
WAITING = """
import signal, sys, time
def wait(count=1):
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    print("ready", flush=True)
    while len(signal.sigpending()) < count:
        time.sleep(0.001)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, signal.valid_signals())
"""


@pytest.mark.parametrize("name", SIGNALS)
def test_a_signal_ends_it_as_under_python(tmp_path: Path, name: str) -> None:
    prepare, numbers = SIGNALS[name]
    comparison = Comparison(tmp_path, Case(f"{WAITING}{prepare}\nwait({len(set(numbers))})\n"))
    processes = [comparison.plain(), comparison.recorded()]
    for process in processes:
        assert process.stdout is not None
        for number in numbers:
            if number is numbers[0]:
                while process.stdout.readline() not in (b"ready\n", b""):
                    pass
            process.send_signal(number)
    expected, found = (comparison.ended(process) for process in processes)
    assert found == expected
    assert expected.status != 0


def test_handlers_and_masks_of_signals_are_pythons(tmp_path: Path) -> None:
    ended = assert_same(
        tmp_path,
        Case(
            """
            import signal
            for number in sorted(signal.valid_signals()):
                print(number, signal.getsignal(number))
            print(signal.pthread_sigmask(signal.SIG_BLOCK, []), signal.set_wakeup_fd(-1))
            print(signal.getitimer(signal.ITIMER_REAL), signal.sigpending())
            signal.signal(signal.SIGALRM, lambda *a: print("alarm"))
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
            signal.setitimer(signal.ITIMER_REAL, 0.01)
            print(signal.sigwait({signal.SIGALRM}))
            signal.raise_signal(signal.SIGALRM)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})
            """
        ),
    )
    assert "alarm" in ended.out
