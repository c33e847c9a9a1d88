"""Processes, files and streams of a program are the same with and without the recorder."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest
from support.transparency import Case, Comparison, assert_same, of_this_python

CHILDREN = {
    "a fork": Case(
        """
        import os, sys, threading, warnings
        warnings.simplefilter("error")
        for status in (0, 3):
            print("before", status, flush=True)
            if os.fork() == 0:
                print("child", threading.active_count(), flush=True)
                sys.exit(status)
            print("parent", os.WEXITSTATUS(os.wait()[1]))
        if os.fork() == 0:
            [].nothing
        print(os.waitstatus_to_exitcode(os.wait()[1]))
        """
    ),
    "warnings of forks": Case(
        """
        import os, threading, warnings
        def fork():
            if os.fork() == 0:
                print(warnings.filters, flush=True); os._exit(0)
            os.wait()
        warnings.simplefilter("default")
        for _ in range(2):
            warnings.warn("once")
            fork()
        print(warnings.filters)
        ended = threading.Event()
        thread = threading.Thread(target=ended.wait); thread.start()
        fork()
        ended.set()
        """,
        varies=rb"pid=\d+",
    ),
    "hooks of a fork": Case(
        """
        import os
        os.register_at_fork(
            before=lambda: print("before", flush=True),
            after_in_parent=lambda: print("parent", flush=True),
            after_in_child=lambda: os._exit(7),
        )
        os.fork()
        print(os.waitstatus_to_exitcode(os.wait()[1]))
        """
    ),
    "a fork in a thread": Case(
        """
        import os, threading
        def work():
            if os.fork() == 0:
                print(len(threading.enumerate()), flush=True); os._exit(4)
            print(os.waitstatus_to_exitcode(os.wait()[1]))
        thread = threading.Thread(target=work); thread.start(); thread.join()
        """,
        # Python 3.12 warns of it.
        varies=rb"pid=\d+",
    ),
    "multiprocessing": Case(
        """
        import multiprocessing, os, sys
        class Mine:
            def __init__(self, x): self.x = x
        def child(queue, mine):
            ours = sorted(key for key in os.environ if "FLOODMARK" in key)
            queue.put((mine.x, __name__, __file__, sys.argv, sys.flags.optimize, ours, sys.path))
            sys.exit(3)
        def fails(): raise ValueError("in a child")
        if __name__ == "__main__":
            for method in ("spawn", "fork", "forkserver"):
                context = multiprocessing.get_context(method)
                queue = context.Queue()
                process = context.Process(target=child, args=(queue, Mine(5)), name=method)
                process.start()
                print(method, queue.get(), process.join(), process.exitcode, flush=True)
                process = context.Process(target=fails, name=f"{method}-fails")
                process.start(); process.join()
                print(process.exitcode, multiprocessing.active_children(), flush=True)
        """,
        options=("-O",),
    ),
    "pools": Case(
        """
        import concurrent.futures, multiprocessing, os
        def square(x): return x * x, __name__
        def fails(x): raise KeyError(x)
        if __name__ == "__main__":
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                print(pool.map(square, range(3)))
                try:
                    pool.map(fails, [1])
                except KeyError as error:
                    print(repr(error), str(error.__cause__).count("Traceback"))
            with concurrent.futures.ProcessPoolExecutor(1) as pool:
                print(list(pool.map(square, range(3))))
        """,
        options=("-W", "ignore::DeprecationWarning"),
    ),
    "a module that spawns": Case(
        files={
            "pkg/__init__.py": "",
            "pkg/m.py": (
                "import multiprocessing, sys\n"
                "def child(): print(__name__, __spec__.name, flush=True)\n"
                "if __name__ == '__main__':\n"
                "    process = multiprocessing.get_context('spawn').Process(target=child)\n"
                "    process.start(); process.join(); print(process.exitcode)\n"
            ),
        },
        words=("-m", "pkg.m"),
    ),
    "a subprocess": Case(
        """
        import os, subprocess, sys
        code = "import os, sys; print(sorted(os.environ.items()), sys.path, sorted(sys.modules))"
        print(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True))
        print(subprocess.run(["cat"], input=b"words", capture_output=True))
        print(subprocess.run("exit 5", shell=True), os.system("exit 6"))
        print(subprocess.run(["echo", "7"], preexec_fn=lambda: None, stdout=subprocess.PIPE))
        """,
        options=("-W", "error"),
    ),
    "os.execv": Case(
        """
        import os, sys
        print("before", flush=True)
        code = "import os, sys; print(sys.argv, 'floodmark' in sys.modules, sorted(os.environ))"
        os.execv(sys.executable, ["python", "-c", code, "x"])
        """
    ),
    "os.execv of itself": Case(
        """
        import os, sys
        print(sys.argv, sys.orig_argv, flush=True)
        if len(sys.argv) < 3:
            os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:], "again"])
        sys.exit(4)
        """
    ),
    "os.posix_spawn": Case(
        """
        import os, sys
        pid = os.posix_spawn(sys.executable, ["python", "-c", "print(5)"], os.environ)
        print(os.waitpid(pid, 0)[1])
        """
    ),
    "SIGCHLD and wait": Case(
        """
        import os, signal
        signal.signal(signal.SIGCHLD, lambda *a: print("child", flush=True))
        pid = os.spawnlp(os.P_WAIT, "true", "true")
        try:
            os.wait()
        except ChildProcessError as error:
            print(pid, error)
        """
    ),
}


@pytest.mark.parametrize("name", of_this_python(CHILDREN))
def test_children_are_as_under_python(tmp_path: Path, name: str) -> None:
    assert_same(tmp_path, CHILDREN[name])


def closed(*descriptors: int):
    """Closes descriptors before Python starts."""

    def close() -> None:
        for descriptor in descriptors:
            os.close(descriptor)

    return close


def full() -> None:
    """Stdout is a full disk."""
    os.dup2(os.open("/dev/full", os.O_WRONLY), 1)


def no_cores() -> None:
    """A limit that a program can see."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
    os.umask(0o027)


STREAMS = {
    "standard input": Case(
        "import sys\nprint(input('? '), sys.stdin.readline(), sys.stdin.read())\ninput()",
        stdin=b"one\ntwo\nthree\nfour",
    ),
    "standard input in bytes": Case(
        "import os, sys\nprint(os.read(0, 3), sys.stdin.buffer.read())", stdin=bytes(range(256))
    ),
    "a closed stdin": Case(
        "import sys\nprint(sys.stdin)\ntry:\n  input()\nexcept Exception as e: print(repr(e))",
        before=closed(0),
    ),
    "a closed stdout": Case(
        "import sys\nprint(sys.stdout)\nprint(sys.stdout, file=sys.stderr)", before=closed(1)
    ),
    "a closed stderr": Case(
        "import sys\nprint(sys.stderr)\nsys.stderr is None and print('none')\n1 / 0",
        before=closed(2),
    ),
    "a full disk": Case("print('x')", before=full),
    "a full disk, flushed": Case("print('x', flush=True)", before=full),
    "bytes": Case(
        "import os, sys\nsys.stdout.buffer.write(bytes(range(256)))\nos.write(2, b'\\xff')"
    ),
    "buffered and not": Case(
        "import os, sys\nprint('a'); os.write(1, b'b\\n'); print(sys.stdout.line_buffering)\n"
        "sys.stderr.write('no end'); os._exit(0)"
    ),
    "no buffer": Case("import os\nprint('a'); os.write(1, b'b\\n')", options=("-u",)),
    "arguments that are not UTF-8": Case(
        "import os, sys\nprint(ascii(sys.orig_argv), [os.fsencode(word) for word in sys.argv])",
        words=("program.py", b"\xff\xfe", b"a=\x80", "ü"),
    ),
    "arguments in an old locale": Case(
        "import locale, sys\nprint(ascii(sys.argv), sys.getfilesystemencoding())\n"
        "print(locale.getpreferredencoding(), sys.stdout.encoding, locale.getlocale())",
        words=("program.py", b"\xff", "ü"),
        environment={"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
    ),
    "a program whose name is not UTF-8": Case(
        files={os.fsdecode(b"\xff.py"): "import os\nprint(os.fsencode(__file__)[-4:])\n1/0"},
        words=(b"\xff.py",),
    ),
    "limits and the mask of files": Case(
        """
        import os, resource
        print(resource.getrlimit(resource.RLIMIT_NOFILE), oct(os.umask(0)))
        print(os.sched_getaffinity(0) == os.sched_getaffinity(1), os.nice(0), os.getpgrp() > 0)
        """,
        before=no_cores,
    ),
    "a folder that is gone": Case(
        "import os, sys\nos.mkdir(n := f'{os.getpid()}'); os.chdir(n); os.rmdir(f'../{n}')\n"
        "print(sys.path[1:] != [])"
    ),
}


@pytest.mark.parametrize("name", of_this_python(STREAMS))
def test_streams_and_files_are_as_under_python(tmp_path: Path, name: str) -> None:
    assert_same(tmp_path, STREAMS[name])


def test_a_reader_that_leaves_is_noticed_as_under_python(tmp_path: Path) -> None:
    source = "for _ in range(100000): print('x' * 100)"
    comparison = Comparison(tmp_path, Case(source))
    ends = []
    for process in (comparison.plain(), comparison.recorded()):
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr is not None
        # A pipe may be full in any line of `print`, but there is one line only.
        ends.append((process.stderr.read(), process.wait()))
    assert ends[0] == ends[1]
    assert b"BrokenPipeError" in ends[0][0]


ALLOCATORS = {"jemalloc": "libjemalloc.so.2", "tcmalloc": "libtcmalloc_minimal.so.4"}


@pytest.mark.parametrize("name", ALLOCATORS)
def test_another_malloc_may_be_preloaded(tmp_path: Path, name: str) -> None:
    folders = [Path("/usr/lib"), Path("/usr/lib64"), *Path("/usr/lib").glob("*-linux-gnu")]
    found = [
        folder / ALLOCATORS[name] for folder in folders if (folder / ALLOCATORS[name]).exists()
    ]
    if not found:
        pytest.skip(f"needs {ALLOCATORS[name]} (Debian: libjemalloc2, libtcmalloc-minimal4)")
    ended = assert_same(
        tmp_path,
        Case(
            """
            import ctypes, os, subprocess, sys, threading
            print(os.environ["LD_PRELOAD"])
            maps = open("/proc/self/maps").read()
            print(os.environ["LD_PRELOAD"] in maps or "malloc" in maps)
            if os.fork() == 0: os._exit(len(bytearray(1 << 24)) >> 20)
            print(os.waitstatus_to_exitcode(os.wait()[1]))
            blocks = []
            def work():
                for size in range(1, 20000, 7): blocks.append(bytearray(size))
            threads = [threading.Thread(target=work) for _ in range(4)]
            for thread in threads: thread.start()
            for thread in threads: thread.join()
            print(len(blocks), sum(map(len, blocks)))
            libc = ctypes.CDLL(None)
            libc.malloc.restype = ctypes.c_void_p
            libc.free(ctypes.c_void_p(libc.malloc(1 << 20)))
            """,
            environment={"LD_PRELOAD": str(found[0])},
        ),
    )
    assert "16\n" in ended.out


MALLOCS = {
    "PYTHONMALLOC=malloc": {"PYTHONMALLOC": "malloc"},
    "PYTHONMALLOC=debug": {"PYTHONMALLOC": "debug", "PYTHONDEVMODE": "1"},
    "MALLOC_PERTURB_": {"MALLOC_PERTURB_": "165", "PYTHONMALLOC": "malloc"},
}


@pytest.mark.parametrize("name", MALLOCS)
def test_pythons_memory_may_be_checked(tmp_path: Path, name: str) -> None:
    source = "x = [bytes(i) for i in range(3000)]\nprint(sum(map(len, x)))\nopen(__file__)\n1 / 0"
    assert assert_same(tmp_path, Case(source, environment=MALLOCS[name])).status == 1
