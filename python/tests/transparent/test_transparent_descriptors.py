"""The descriptors of a program are its own, with and without the recorder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.transparency import Case, assert_same


def close_all() -> None:
    """Start Python without stdin, stdout and stderr."""
    for descriptor in range(3):
        os.close(descriptor)


CASES = {
    "nothing open": Case(
        """
        import os
        first = os.open("all.txt", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        os.write(first, f"{first}\\n".encode())
        print("never seen")
        raise SystemExit(first + 20)
        """,
        before=close_all,
    ),
    "the lowest descriptor": Case(
        """
        import os
        files = [open(__file__) for _ in range(4)]
        print([file.fileno() for file in files], os.dup(1))
        """
    ),
    "os.closerange": Case(
        """
        import os
        os.closerange(3, 256)
        with open(f"{os.getpid()}.txt", "w+") as file:
            for line in range(20000):
                file.write(f"{line} of mine\\n")
            file.flush()
            file.seek(0)
            print(file.fileno(), hash(file.read()), os.fstat(file.fileno()).st_size)
        """,
        environment={"PYTHONHASHSEED": "1"},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_descriptors_are_as_under_python(tmp_path: Path, name: str) -> None:
    assert_same(tmp_path, CASES[name])
