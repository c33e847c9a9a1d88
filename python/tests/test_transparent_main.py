"""What a program sees of itself is the same with and without the recorder."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from transparency import Case, assert_same

#: Says all that a program can see of how it was started.
LOOKING = """
    import builtins, os, sys
    main = sys.modules["__main__"]
    for name in sorted(globals()):
        print(name, "=", repr(globals()[name]))
    print(main.__dict__ is globals(), __builtins__ is builtins, __name__)
    print(getattr(__loader__, "name", None), getattr(__loader__, "path", None))
    print(sys.argv, sys.orig_argv, sys.executable, sys.prefix, sys.path)
    print(sys.flags, sys._xoptions, sys.warnoptions, sys.path_hooks)
    print(os.getcwd(), sys._getframe().f_back, sys.excepthook, sys.displayhook)
    for item in sorted(os.environ.items()):
        print(*item)
"""

CASES = {
    "a script": Case(LOOKING),
    "annotations": Case(
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
}


def of_this_python(cases: dict[str, Case]) -> list[str]:
    """The names of the cases that this Python can run."""
    return [name for name, case in cases.items() if sys.version_info >= case.since]


@pytest.mark.parametrize("name", of_this_python(CASES))
def test_a_program_sees_itself_as_it_would(tmp_path: Path, name: str) -> None:
    assert_same(tmp_path, CASES[name])
