"""What a program sees of itself is the same with and without the recorder."""

from __future__ import annotations

import io
import sys
import textwrap
import zipfile
from pathlib import Path

import pytest
from support.transparency import Case, Comparison, assert_same, of_this_python

#: Says all that a program can see of how it was started.
LOOKING = textwrap.dedent("""
    import builtins, os, sys, warnings
    main = sys.modules["__main__"]
    for name in sorted(globals()):
        print(name, "=", repr(globals()[name]))
    print(main.__dict__ is globals(), __builtins__ is builtins, __name__)
    print(getattr(__loader__, "name", None), getattr(__loader__, "path", None))
    print(sys.argv, sys.orig_argv, sys.executable, sys.prefix, sys.path)
    print(sys.flags, sys._xoptions, sys.warnoptions, sys.path_hooks, warnings.filters)
    print(os.getcwd(), sys._getframe().f_back, sys.excepthook, sys.displayhook, sys.stdout)
    for item in sorted(os.environ.items()):
        print(*item)
""")


def zipped(**files: str) -> bytes:
    """A zip file with these modules."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, source in files.items():
            archive.writestr(f"{name}.py", source)
    return b"#!/usr/bin/env python3\n" + file.getvalue()


STARTS = {
    "a script": Case(LOOKING),
    "its own options": Case(LOOKING, words=("program.py", "-m", "x", "--", "-q", "-o=5", "ü", "")),
    "a script in a folder": Case(files={"a/b.py": LOOKING}, words=("a/b.py",)),
    "a path that is not normal": Case(files={"a/b.py": LOOKING}, words=("a/../a//b.py",)),
    "no suffix": Case(files={"train": LOOKING}, words=("train",)),
    "a name with a space and ü": Case(files={"mein übung.py": LOOKING}, words=("mein übung.py",)),
    "a module": Case(
        files={"pkg/__init__.py": "", "pkg/m.py": LOOKING}, words=("-m", "pkg.m", "-m", "x")
    ),
    "a package": Case(
        files={"pkg/__init__.py": "print(__name__)", "pkg/__main__.py": LOOKING},
        words=("-m", "pkg", "--flag"),
    ),
    "a folder": Case(files={"app/__main__.py": LOOKING, "app/m.py": ""}, words=("app", "x")),
    "a zip file": Case(files={"app.pyz": zipped(__main__=LOOKING, m="")}, words=("app.pyz", "x")),
    "standard input": Case(words=("-", "x", "-y"), stdin=LOOKING.encode()),
    "-O": Case(LOOKING + "\nassert False", options=("-O",)),
    "-OO": Case(LOOKING + "\ndef f():\n    'docs'\nprint(f.__doc__)", options=("-OO",)),
    "-u -B -b -s": Case(LOOKING, options=("-u", "-Bb", "-s")),
    "-P": Case(LOOKING, options=("-P",), since=(3, 11)),
    "-W and -X": Case(
        LOOKING, options=("-Werror", "-W", "ignore::UserWarning", "-Xc", "-X", "a=b")
    ),
    "-X dev": Case(LOOKING, options=("-X", "dev")),
    "-X utf8": Case(LOOKING, options=("-Xutf8=0",), environment={"LC_ALL": "C"}),
    "PYTHONPATH": Case(
        LOOKING + "import m",
        files={"lib/m.py": "print(__file__)"},
        environment={"PYTHONPATH": "lib:./lib/../lib"},
    ),
    "an empty PYTHONPATH": Case(LOOKING, environment={"PYTHONPATH": ""}),
    "a sitecustomize of its own": Case(
        LOOKING + "import sitecustomize as own\nprint(own.__file__, own.__spec__, own.path)",
        files={"lib/sitecustomize.py": "import sys\npath = list(sys.path)"},
        environment={"PYTHONPATH": "lib"},
    ),
    "other variables of Python": Case(
        LOOKING + "print(hash('a'))",
        environment={
            "PYTHONHASHSEED": "7",
            "PYTHONOPTIMIZE": "1",
            "PYTHONWARNINGS": "error",
            "PYTHONIOENCODING": "latin-1:replace",
            "PYTHONNOUSERSITE": "1",
            "PYTHONUNBUFFERED": "1",
        },
    ),
}


@pytest.mark.parametrize("name", of_this_python(STARTS))
def test_a_program_is_started_as_by_python(tmp_path: Path, name: str) -> None:
    ended = assert_same(tmp_path, STARTS[name])
    assert ended.status == 0, ended.err
    assert "__main__" in ended.out


SOURCES = {
    "annotations are not strings": Case(
        """
        import dataclasses, sys, typing
        @dataclasses.dataclass
        class Point:
            x: int
            y: "float" = 1.0
        def scaled(point: Point, by: int = 2) -> Point: ...
        here: int = 3
        print([field.type for field in dataclasses.fields(Point)], scaled.__annotations__)
        print(typing.get_type_hints(Point), __annotations__, sys._getframe().f_code.co_flags)
        print(eval("lambda x: 0").__code__.co_flags, exec("a: int = 1"), __annotations__)
        """
    ),
    "frames and sources": Case(
        """
        import inspect, linecache, sys, traceback, warnings
        def outer(f):
            return f()
        class Mine:
            '''docs'''
            def inner(self):
                traceback.print_stack()
                return [(f.function, f.lineno, f.filename, f.code_context) for f in inspect.stack()]
        print(outer(Mine().inner))
        print(inspect.getsource(Mine), inspect.getfile(Mine), inspect.getmodule(Mine).__name__)
        print(linecache.getline(__file__, 3), inspect.getsourcefile(outer))
        for level in range(1, 4):
            warnings.warn(f"careful {level}", stacklevel=level)
        print([type(frame) for frame in sys._current_frames().values()])
        """
    ),
    "the recursion limit": Case(
        """
        import sys
        def depth(n=1):
            try:
                return depth(n + 1)
            except RecursionError:
                return n
        print(sys.getrecursionlimit(), depth())
        sys.setrecursionlimit(60)
        print(depth())
        depth = lambda: depth()
        depth()
        """
    ),
    "pickles": Case(
        """
        import copyreg, enum, pickle
        class Mine:
            def __eq__(self, other): return self.__dict__ == other.__dict__
        class Colour(enum.Enum):
            RED = 1
        def function(): ...
        mine = Mine(); mine.x = [Colour.RED, function, Mine]
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            data = pickle.dumps(mine, protocol)
            print(data, pickle.loads(data) == mine)
        try:
            pickle.dumps(lambda: 0)
        except Exception as error:
            print(repr(error))
        """
    ),
    "runpy": Case(
        """
        import runpy, sys
        print(sorted(runpy.run_path("other.py", run_name="other")))
        print(runpy.run_path("other.py", {"a": 1})["seen"])
        print(runpy.run_module("other", alter_sys=True)["seen"], sys.argv, __file__)
        import __main__
        print(__main__.__file__, sys.modules["__main__"] is __main__)
        """,
        files={"other.py": "import sys\nseen = (__name__, __file__, sys.argv, __spec__)"},
    ),
    "imports": Case(
        """
        import importlib, importlib.util, sys
        import sibling
        print(sibling.__file__, sibling.main_name, importlib.util.find_spec("sibling").origin)
        print(importlib.util.find_spec("floodmark.nothing_here") if False else "-")
        importlib.reload(sibling)
        import program
        print(program.__name__, program is sys.modules["__main__"])
        try:
            import nothing_here
        except ImportError as error:
            print(repr(error), error.path)
        """,
        files={"sibling.py": "import __main__\nmain_name = __main__.__name__\nprint('loaded')"},
    ),
    "latin-1": Case(files={"program.py": b"# coding: latin-1\nprint(ascii('\xfc'), __doc__)\n"}),
    "a byte order mark": Case(files={"program.py": b"\xef\xbb\xbfprint('\xc3\xbc')\n"}),
    "a warning of the compiler": Case("print('\\d', 1 is 1)\nassert (1, 'always')"),
    "warnings as errors": Case("import warnings\nwarnings.warn('x')", options=("-W", "error")),
    "an empty script": Case(files={"program.py": ""}),
    "a syntax error": Case("print('never')\ndef broken(:\n    pass\n"),
    "an indentation error": Case("if True:\nprint(1)\n"),
    "a null byte": Case(files={"program.py": b"print(1)\0\n"}),
    "a wrong encoding": Case(files={"program.py": b"print('\xff')\n"}),
    "an unknown encoding": Case(files={"program.py": b"# coding: nonsense\nprint(1)\n"}),
    "a future that is not": Case("from __future__ import nonsense\n"),
    "a syntax error in an import": Case("import broken", files={"broken.py": "a b"}),
    "a folder without __main__": Case(files={"app/x.py": ""}, words=("app",)),
    "no such module": Case(words=("-m", "nothing_here.at_all")),
    "a package without __main__": Case(files={"pkg/__init__.py": "print(1)"}, words=("-m", "pkg")),
    "a module that fails": Case(files={"m.py": "import os\nos.nothing"}, words=("-m", "m")),
    "a zip file that fails": Case(files={"a.pyz": zipped(__main__="1/0")}, words=("a.pyz",)),
    "standard input that fails": Case(words=("-",), stdin=b"def f():\n  1/0\nf()\n"),
    "no read permission": Case(
        "print(1)",
        # Root may read everything unless it gives that up.
        before=lambda: Path("program.py").chmod(0),
        wrapper=("setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all"),
    ),
}


@pytest.mark.parametrize("name", of_this_python(SOURCES))
def test_a_source_is_read_as_by_python(tmp_path: Path, name: str) -> None:
    assert_same(tmp_path, SOURCES[name])


def test_a_compiled_script_runs(tmp_path: Path) -> None:
    import py_compile

    source = tmp_path / "source.py"
    source.write_text(LOOKING)
    compiled = Path(py_compile.compile(str(source), str(tmp_path / "source.pyc")))
    case = Case(files={"program.pyc": compiled.read_bytes()}, words=("program.pyc", "x"))
    assert assert_same(tmp_path, case).status == 0


def test_a_symbolic_link_leads_to_the_script(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "real.py").write_text(LOOKING + "import beside")
    (tmp_path / "real" / "beside.py").write_text("print(__file__)")

    case = Case(words=("linked.py",), files={"beside.py": "print('wrong')"})
    (tmp_path / "programs").mkdir()
    (tmp_path / "programs" / "linked.py").symlink_to(tmp_path / "real" / "real.py")
    ended = assert_same(tmp_path, case)
    assert str(tmp_path / "real" / "beside.py") in ended.out


def test_an_absolute_path_stays_one(tmp_path: Path) -> None:
    script = tmp_path / "somewhere" / "else.py"
    script.parent.mkdir()
    script.write_text(LOOKING)
    ended = assert_same(tmp_path, Case(words=(str(script), "x")))
    assert f"__file__ = '{script}'" in ended.out
    assert sys.executable in ended.out


def test_a_sitecustomize_that_fails_says_so(tmp_path: Path) -> None:
    comparison = Comparison(
        tmp_path,
        Case(
            "print(1)",
            files={"lib/sitecustomize.py": "[].nothing"},
            environment={"PYTHONPATH": "lib"},
        ),
    )
    expected = comparison.ended(comparison.plain())
    found = comparison.ended(comparison.recorded())
    # `floodmark` itself is a Python process before the program is.
    assert found.err == 2 * expected.err
    assert (found.out, found.status) == (expected.out, expected.status)


#: How floodmark is started, and the options of Python among these words.
COMMANDS = {
    "bundled options": (("-OOm", "floodmark"), ("-OO",)),
    "options with values": (
        ("-X", "a=b", "-Wignore", "-W", "error", "-mfloodmark"),
        ("-X", "a=b", "-Wignore", "-W", "error"),
    ),
    "the inner name": (("-B", "-m", "floodmark.__main__"), ("-B",)),
    "its script": (("-u", str(Path(sys.executable).parent / "floodmark")), ("-u",)),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_options_of_python_stay(tmp_path: Path, name: str) -> None:
    words, options = COMMANDS[name]
    if name == "its script" and not Path(words[-1]).exists():
        pytest.skip("needs the `floodmark` script beside Python")
    comparison = Comparison(tmp_path, Case(LOOKING))
    plain = comparison.start(*options, "program.py", "x", "-m")
    ours = (*words, "run", "-q", "-o", str(comparison.trace), "program.py", "x", "-m")
    recorded = comparison.start(*ours)
    expected, found = comparison.ended(plain), comparison.ended(recorded)
    assert found == expected
    assert found.status == 0
