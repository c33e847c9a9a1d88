"""Tools that look into a program see the same with and without the recorder."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from support.transparency import Case, assert_same, of_this_python

WORK = """
def inner(x):
    y = x + 1
    return [y for _ in range(2)]
def work():
    try:
        return sum(inner(3)) + len(sorted([2, 1], key=abs))
    finally:
        pass
"""

CASES = {
    "sys.settrace": Case(
        WORK
        + """
import sys, threading
seen = []
def trace(frame, event, arg):
    seen.append((event, frame.f_code.co_name, frame.f_lineno, frame.f_code.co_filename))
    return trace
print(sys.gettrace(), sys.getprofile())
sys.settrace(trace)
work()
sys.settrace(None)
threading.settrace(trace)
thread = threading.Thread(target=work); thread.start(); thread.join()
threading.settrace(None)
print(*seen, sep="\\n")
"""
    ),
    "sys.setprofile": Case(
        WORK
        + """
import sys
seen = []
sys.setprofile(lambda frame, event, arg: seen.append((event, frame.f_code.co_name)))
work()
sys.setprofile(None)
print(*seen, sep="\\n")
"""
    ),
    "a trace that is never taken off": Case(
        """
        import sys
        def trace(frame, event, arg):
            if frame.f_code.co_filename == __file__:
                sys.__stderr__.write(f"{event} {frame.f_lineno}\\n")
            return trace
        sys.settrace(trace)
        def f():
            return 1
        f()
        raise SystemExit(2)
        """
    ),
    "sys.monitoring": Case(
        WORK
        + """
import sys
m = sys.monitoring
print([m.get_tool(tool) for tool in range(6)])
m.use_tool_id(m.PROFILER_ID, "mine")
seen = []
for event in ("PY_START", "PY_RETURN", "LINE"):
    number = getattr(m.events, event)
    note = lambda code, *more, event=event: seen.append((event, code.co_name, more))
    m.register_callback(m.PROFILER_ID, number, note)
m.set_events(m.PROFILER_ID, m.events.PY_START | m.events.PY_RETURN | m.events.LINE)
work()
m.set_events(m.PROFILER_ID, 0)
print(*seen, sep="\\n")
""",
        since=(3, 12),
    ),
    "tracemalloc": Case(
        """
        import tracemalloc
        tracemalloc.start(5)
        kept = [bytes(1000 + size) for size in range(50)]
        shot = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, __file__)])
        print(*shot.statistics("traceback"), sep="\\n")
        print(tracemalloc.get_object_traceback(kept[0]), tracemalloc.get_traceback_limit())
        """
    ),
    "faulthandler": Case(
        """
        import faulthandler, sys, threading
        print(faulthandler.is_enabled())
        faulthandler.dump_traceback(all_threads=True)
        def work():
            faulthandler.dump_traceback(all_threads=False)
        thread = threading.Thread(target=work); thread.start(); thread.join()
        faulthandler.enable()
        import ctypes
        ctypes.string_at(0)
        """
    ),
    "PYTHONFAULTHANDLER": Case(
        "import ctypes\nctypes.string_at(0)", environment={"PYTHONFAULTHANDLER": "1"}
    ),
    "cProfile": Case(
        WORK + "import time\nwork()",
        words=("-m", "cProfile", "-s", "line", "program.py"),
        varies=rb"(?m)\d+\.\d{3}|^(?!.*program\.py).*\n",
    ),
    "trace": Case(
        WORK + "work()", words=("-m", "trace", "--trace", "--ignore-dir", sys.prefix, "program.py")
    ),
    "pdb": Case(
        WORK + "work()\n1 / 0",
        words=("-m", "pdb", "program.py"),
        stdin=b"b inner\nc\nw\np x\nn\np y\nup\nl\nc\nw\nq\n",
    ),
    "breakpoint": Case("x = 5\nbreakpoint()\nprint(x)", stdin=b"w\np x\n!x = 6\nc\n"),
    "unittest": Case(
        files={
            "test_it.py": (
                "import unittest\n"
                "class T(unittest.TestCase):\n"
                "    def test_good(self): self.assertEqual(1, 1)\n"
                "    def test_bad(self): self.assertEqual(1, 2)\n"
                "    def test_warns(self): open(__file__)\n"
            )
        },
        words=("-m", "unittest", "-v", "test_it"),
        varies=rb"in \d+\.\d+s",
    ),
    "doctest": Case('"""\n>>> 1 + 1\n3\n"""\n', words=("-m", "doctest", "program.py")),
    "timeit, json.tool and others": Case(
        """
        import runpy, sys
        for name in ("this", "platform", "sysconfig"):
            sys.argv = [name]
            try:
                runpy.run_module(name, run_name="__main__")
            except SystemExit as error:
                print(error.code)
        """
    ),
    "json.tool": Case(words=("-m", "json.tool"), stdin=b'{"b": [1, 2], "a": "\xc3\xbc"}'),
    "compileall": Case(
        files={"lib/a.py": "x = 1", "lib/b.py": "x ="}, words=("-m", "compileall", "-q", "lib")
    ),
    "zipapp": Case(
        """
        import os, zipapp
        name = f"{os.getpid()}.pyz"
        zipapp.create_archive("app", name)
        print(os.path.getsize(name), os.system(f"python3 {name} 2>&1") >> 8)
        """,
        files={"app/__main__.py": "import sys\nsys.exit(5)"},
    ),
    "C extensions": Case(
        """
        import _ctypes, ctypes, decimal, hashlib, sqlite3, threading, time, zlib
        print(hashlib.sha256(b"a").hexdigest(), zlib.crc32(b"a"), decimal.getcontext())
        print(sqlite3.connect(":memory:").execute("select 1 + 1").fetchall())
        number = ctypes.POINTER(ctypes.c_int)
        compare = ctypes.CFUNCTYPE(ctypes.c_int, number, number)
        numbers = (ctypes.c_int * 5)(3, 1, 2, 5, 4)
        ctypes.CDLL(None).qsort(numbers, 5, 4, compare(lambda a, b: a[0] - b[0]))
        print(list(numbers))
        seen = []
        start = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(
            lambda _: seen.append(type(threading.current_thread()).__name__))
        thread = ctypes.c_ulong()
        libc = ctypes.CDLL(None)
        libc.pthread_create(ctypes.byref(thread), None, start, None)
        libc.pthread_join(thread, None)
        print(seen, threading.active_count())
        """
    ),
    "a buffer of C": Case(
        """
        import ctypes
        ctypes.CDLL(None).printf(b"in a buffer of C\\n")
        print("of Python")
        """
    ),
    "state of modules": Case(
        """
        import codecs, decimal, gc, locale, logging, mimetypes, random, socket, sys
        import tempfile, threading, time, warnings
        print(warnings.filters, logging.root.handlers, logging.root.level, logging._nameToLevel)
        print(gc.isenabled(), gc.get_threshold(), gc.callbacks, sys.getswitchinterval())
        print(sys.getrecursionlimit(), sys.get_asyncgen_hooks())
        print(socket.getdefaulttimeout(), tempfile.tempdir, threading.stack_size(), time.tzname)
        print(threading.excepthook, sys.unraisablehook, sys.breakpointhook, sys.__excepthook__)
        print(sys.meta_path[-3:], sys.dont_write_bytecode, sys.pycache_prefix)
        print(decimal.getcontext().prec, locale.localeconv())
        random.seed(1); print(random.random(), codecs.lookup("utf-8").name)
        """
    ),
    "sub-interpreters": Case(
        """
        try:
            import _xxsubinterpreters as interpreters
        except ImportError:
            import _interpreters as interpreters
        one = interpreters.create()
        interpreters.run_string(one, "import sys; print(sys.argv, 'floodmark' in sys.modules)")
        interpreters.destroy(one)
        """
    ),
    "logging and warnings": Case(
        """
        import logging, warnings
        logging.basicConfig(format="%(levelname)s %(name)s %(filename)s:%(lineno)d %(funcName)s")
        logging.captureWarnings(True)
        warnings.warn("careful")
        logging.getLogger("mine").error("words", stack_info=True)
        logging.exception("none")
        """
    ),
    "the same words of importtime": Case(
        "print('x')",
        options=("-X", "importtime"),
        varies=rb"(?m)(^import time:.*\n)+",
    ),
}


@pytest.mark.parametrize("name", of_this_python(CASES))
def test_a_tool_sees_what_it_would(tmp_path: Path, name: str) -> None:
    assert_same(tmp_path, CASES[name])


TESTS = """
import sys, pytest
def test_good(tmp_path): assert tmp_path.exists()
def test_bad():
    x = {"a": 1}
    assert x == {"a": 2}
@pytest.mark.parametrize("x", [1, 2])
def test_many(x, capsys):
    print(x, file=sys.stderr)
    assert capsys.readouterr().err == "3"
def test_warns(): import warnings; warnings.warn("careful")
def test_exits(): sys.exit(3)
"""


def test_pytest_says_the_same(tmp_path: Path) -> None:
    ended = assert_same(
        tmp_path,
        Case(
            files={"test_it.py": TESTS},
            words=("-m", "pytest", "-p", "no:cacheprovider", "-rA", "test_it.py"),
            # From a minute on pytest adds the time in hours, minutes and seconds.
            varies=rb"in \d+\.\d+s(?: \(\d+:\d+:\d+\))?|=+",
        ),
    )
    assert "4 failed, 2 passed, 1 warning" in ended.out
