"""How a program ends, and what it says at its end, is the same with and without the recorder."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.transparency import Case, assert_same, of_this_python

EXITS = {
    "None": "sys.exit()",
    "a number": "sys.exit(3)",
    "a large number": "sys.exit(2**40 + 5)",
    "a negative number": "sys.exit(-1)",
    "True": "sys.exit(True)",
    "words": "print('out'); sys.exit('words ü')",
    "a tuple": "sys.exit((1, 2))",
    "an object that cannot be shown": "sys.exit(type('Odd', (), {'__str__': lambda self: 1})())",
    "an object whose `__str__` raises": "class Odd:\n    def __str__(self): 1 / 0\nsys.exit(Odd())",
    "an exit of its own": "class Enough(SystemExit): ...\nraise Enough(7)",
    "an exit while another error is handled": "try:\n    1 / 0\nfinally:\n    sys.exit(4)",
    "os._exit": "import os; print('lost', end=''); os._exit(9)",
    "os.abort": "import os; os.abort()",
    "the interactive quit": "quit(5)",
    "an exit in a thread": """
import threading
def leave(): sys.exit(5)
thread = threading.Thread(target=leave); thread.start(); thread.join(); print("went on")
""",
}


def test_threading_is_imported_by_the_program_alone(tmp_path: Path) -> None:
    # Python 3.13 says something else about an exit that fails where it is imported.
    assert_same(tmp_path, Case("import sys; print('threading' in sys.modules)"))


@pytest.mark.parametrize("name", EXITS)
def test_an_exit_has_its_status_and_its_words(tmp_path: Path, name: str) -> None:
    assert_same(tmp_path, Case("import sys\n" + EXITS[name]))


ERRORS = {
    "a chain of errors": Case(
        """
        def fails(x):
            try:
                [][x]
            except IndexError as error:
                raise LookupError(f"no {x}") from error
        try:
            fails(3)
        except LookupError:
            {}["key"]
        """
    ),
    "a group of errors": Case(
        """
        error = ValueError("one"); error.add_note("a note")
        inner = ExceptionGroup("inner", [OSError(3, "x")])
        raise ExceptionGroup("several", [error, KeyError(2), inner])
        """,
        since=(3, 11),
    ),
    "a keyboard interrupt of its own": Case("raise KeyboardInterrupt('mine')"),
    "an error of another kind": Case("class Mine(BaseException): ...\nraise Mine(1)"),
    "a syntax error in eval": Case("eval('1 +')"),
    "an error without words": Case(
        """
        class Odd(Exception):
            def __str__(self): raise TypeError
        raise Odd
        """
    ),
    "an error in bad unicode": Case("raise ValueError('\\udcff')"),
    "endless recursion": Case("def f():\n    f()\nf()"),
    "a hook": Case(
        """
        import sys, traceback
        def hook(kind, error, where):
            print(kind, error, traceback.format_tb(where), error.__traceback__ is where)
            print(hasattr(sys, "last_value"), sys.exc_info())
        sys.excepthook = hook
        def fails(): raise ValueError("mine")
        fails()
        """
    ),
    "a hook that fails": Case("import sys\nsys.excepthook = lambda *a: 1 / 0\n[].x"),
    "no hook": Case("import sys\ndel sys.excepthook\n[].x"),
    "the last error": Case(
        """
        import atexit, sys, traceback
        @atexit.register
        def last():
            print(sys.last_type, sys.last_value, traceback.format_tb(sys.last_traceback))
        [].nothing
        """
    ),
    "no traceback": Case("import sys\nsys.tracebacklimit = 0\n[].x"),
    "errors in threads": Case(
        """
        import sys, threading
        def run(f):
            thread = threading.Thread(target=f, name="mine"); thread.start(); thread.join()
        run(lambda: [].nothing)
        threading.excepthook = lambda args: print(args.exc_type, args.thread.name)
        run(lambda: [].nothing)
        print([thread.name for thread in threading.enumerate()], threading.active_count())
        """
    ),
    "errors that cannot be raised": Case(
        """
        import gc, sys, weakref
        class Odd:
            def __del__(self): raise ValueError("in del")
        Odd()
        cycle = Odd(); cycle.self = cycle; del cycle; gc.collect()
        sys.unraisablehook = lambda args: print(args.exc_type, args.err_msg)
        Odd()
        finalizer = weakref.finalize(sys, lambda: 1 / 0)
        """
    ),
    "handlers at the exit": Case(
        """
        import atexit, sys
        atexit.register(print, "first in")
        atexit.register(lambda: 1 / 0)
        atexit.register(sys.exit, 5)
        @atexit.register
        def again():
            print("again", file=sys.stderr)
            atexit.register(print, "registered at the exit")
        gone = lambda: print("never")
        atexit.register(gone); atexit.unregister(gone)
        print("body", flush=True)
        """
    ),
    "handlers that are cleared": Case("import atexit\natexit.register(print)\natexit._clear()"),
    "handlers that are run early": Case(
        "import atexit\natexit.register(print, 1)\natexit._run_exitfuncs()\nprint(2)"
    ),
    "threads alive at the exit": Case(
        """
        import threading, time
        ended = threading.Event()
        def end():
            threading.main_thread().join()
            ended.set()
        def late():
            ended.wait()
            print("late", threading.main_thread().is_alive())
        threading.Thread(target=late).start()
        threading.Thread(target=lambda: time.sleep(1000), daemon=True).start()
        threading.Timer(0.01, end).start()
        print("main ends")
        """
    ),
    "an error beside threads": Case(
        """
        import threading
        threading.Thread(target=lambda: (threading.main_thread().join(), print("after"))).start()
        1 / 0
        """
    ),
    "objects at the shutdown": Case(
        """
        import sys, weakref
        class Said:
            def __init__(self, name): self.name = name
            def __del__(self): print("gone", self.name, sys.is_finalizing(), type(sys.modules))
        one = Said("one")
        cycle = Said("cycle"); cycle.self = cycle
        sys.kept = Said("of sys")
        weakref.finalize(one, print, "finalized")
        import builtins
        builtins.kept = Said("of builtins")
        """
    ),
    "callbacks of the collector": Case(
        """
        import gc
        seen = []
        gc.collect()  # The next one is the one that is asked for.
        gc.callbacks.append(lambda phase, info: seen.append((phase, info["generation"])))
        class Mine: ...
        for _ in range(3):
            a = Mine(); a.a = a; del a
        print(gc.collect(0) >= 0, seen[:2], gc.isenabled(), gc.get_threshold(), gc.get_debug())
        print(len(gc.callbacks), gc.garbage, gc.get_freeze_count())
        """
    ),
    "output that cannot be written": Case("print('x' * 100000)", words=("program.py",)),
    "a closed stdout of Python": Case("import sys\nsys.stdout.close()\nsys.stderr.write('e')"),
    "a replaced stdout": Case(
        "import io, sys\nsys.stdout = io.StringIO()\nprint(1)\nsys.stderr = None\n1 / 0"
    ),
    "asyncio": Case(
        """
        import asyncio
        async def fails():
            await asyncio.sleep(0); raise ValueError("in a task")
        async def main():
            task = asyncio.create_task(fails())
            await asyncio.sleep(0.01)
            print(type(asyncio.get_running_loop()).__name__, asyncio.all_tasks() != set())
            await task
        asyncio.run(main())
        """
    ),
    "a generator that is left": Case(
        "def f():\n  try:\n    yield 1\n  finally:\n    print('left')\ng = f()\nnext(g)\n"
    ),
    "python -i": Case("x = 3", options=("-i", "-q"), stdin=b"print(x + 1)\nexit(4)\n"),
    "PYTHONINSPECT": Case("import os\nos.environ['PYTHONINSPECT'] = '1'", stdin=b"print(5)\n"),
}


@pytest.mark.parametrize("name", of_this_python(ERRORS))
def test_an_end_is_as_under_python(tmp_path: Path, name: str) -> None:
    assert_same(tmp_path, ERRORS[name])
