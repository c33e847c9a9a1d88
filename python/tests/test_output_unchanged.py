"""What a program says and how it ends is the same with and without the recorder."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

PROGRAMS = {
    "an uncaught exception": """
        def fails(x):
            raise LookupError(f"no {x}")

        print("before")
        try:
            1 / 0
        except ZeroDivisionError as error:
            fails(3)
        """,
    "an exception that torch raises": """
        import torch
        torch.ones(2, 3) @ torch.ones(2, 3)
        """,
    "an exit status": """
        import sys
        print("out"); print("err", file=sys.stderr)
        sys.exit(3)
        """,
    "an exit with words": """
        import sys
        sys.exit("words")
        """,
    "an exit handler, a warning and a hook": """
        import atexit, sys, warnings

        @atexit.register
        def last():
            print("last")

        warnings.warn("careful")
        sys.excepthook = lambda kind, error, traceback: print("hook", kind.__name__, error)
        raise ValueError("mine")
        """,
    "an exception in a thread": """
        import threading
        thread = threading.Thread(target=lambda: [].nothing)
        thread.start(); thread.join()
        print("went on")
        """,
    "a keyboard interrupt of its own": """
        raise KeyboardInterrupt
        """,
    "bytes": """
        import os, sys
        sys.stdout.buffer.write(bytes(range(256)))
        os.write(2, b"\\xff\\x00")
        """,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_same_words_and_the_same_status(programs, name):
    programs.write(PROGRAMS[name], "program.py")
    plain = programs.python("program.py", text=False)
    ours = programs.floodmark("run", "-q", "-o", "a.flood", "program.py", text=False)
    assert ours.stdout == plain.stdout
    assert ours.stderr.decode(errors="replace") == plain.stderr.decode(errors="replace")
    assert ours.returncode == plain.returncode
    assert (programs.folder / "a.flood").exists()
    assert not (programs.folder / "a.flood.journal").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_as_it_would_have(programs, number):
    programs.write(
        """
        import time
        print("ready", flush=True)
        time.sleep(60)
        """,
        "program.py",
    )

    def ended(words):
        process = subprocess.Popen(
            [sys.executable, *words],
            cwd=programs.folder,
            env=programs.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.2)
        process.send_signal(number)
        _, words = process.communicate(timeout=60)
        return process.returncode, words

    plain = ended(["program.py"])
    assert ended(["-m", "floodmark", "run", "-q", "-o", "a.flood", "program.py"]) == plain
    assert plain[0] != 0
