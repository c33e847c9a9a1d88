"""coverage and debugpy see a program as they would, around floodmark and inside it."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from support.dap import Client
from support.programs import PATIENCE
from support.transparency import Case, Comparison, assert_same

PROGRAM = """
import sys
def chosen(x):
    if x > 1:
        return "large"
    return "small"
def never():
    return 1
print(chosen(2), chosen(0), sys.argv, __name__, __file__)
chosen(None)
"""


def measured(folder: Path) -> list[Any]:
    """What the files of coverage say, and the folder without them."""
    coverage = pytest.importorskip("coverage")
    found = []
    for file in sorted(folder.glob(".coverage.*")):
        data = coverage.CoverageData(basename=str(file))
        data.read()
        found.append({name: sorted(data.arcs(name)) for name in sorted(data.measured_files())})
        file.unlink()
    return found


def test_coverage_measures_the_same(tmp_path: Path) -> None:
    pytest.importorskip("coverage")
    words = ("-m", "coverage", "run", "--branch", "-p", "--source=.", "program.py", "x")
    ended = assert_same(tmp_path, Case(PROGRAM, words=words))
    assert ended.status == 1
    plain, recorded = measured(tmp_path / "programs")
    assert plain == recorded
    assert len(next(iter(plain.values()))) > 5


def test_coverage_may_run_floodmark(tmp_path: Path) -> None:
    pytest.importorskip("coverage")
    comparison = Comparison(tmp_path, Case(PROGRAM))
    tool = ("-m", "coverage", "run", "--branch", "-p", "--source=.")
    ours = ("-m", "floodmark", "run", "-q", "-o", str(comparison.trace))
    plain = comparison.ended(comparison.start(*tool, "program.py", "x"))
    expected = measured(comparison.folder)
    recorded = comparison.ended(comparison.start(*tool, *ours, "program.py", "x"))
    assert measured(comparison.folder) == expected
    assert comparison.trace.exists()
    assert (recorded.out, recorded.status) == (plain.out, plain.status)
    # coverage leaves its own frames out, we ours.
    assert recorded.err == plain.err


#: pydevd warns about frozen modules, with a time in front, and of what takes long.
QUIET = {
    "PYDEVD_DISABLE_FILE_VALIDATION": "1",
    "PYDEVD_WARN_EVALUATION_TIMEOUT": str(PATIENCE),
    "PYDEVD_WARN_SLOW_RESOLVE_TIMEOUT": str(PATIENCE),
}


def test_debugpy_runs_it_as_always(tmp_path: Path) -> None:
    pytest.importorskip("debugpy")
    words = ("-m", "debugpy", "--listen", "127.0.0.1:0", "program.py", "x")
    ended = assert_same(tmp_path, Case(PROGRAM, words=words, environment=QUIET))
    assert ended.status == 1
    assert "TypeError" in ended.err


STOPPED = """
import debugpy
print(debugpy.listen(("127.0.0.1", 0))[1], flush=True)
debugpy.wait_for_client()
def inner(x):
    y = x + 1
    return y  # stop here
print(inner(4))
"""


def stopped(process: subprocess.Popen[bytes], script: Path) -> list[Any]:
    """What a debugger sees where the program stops, and what it makes of it."""
    assert process.stdout is not None
    client = Client(int(process.stdout.readline()))
    client.ask("initialize", adapterID="test", pathFormat="path")
    attached = client.send("attach", justMyCode=False)
    client.event("initialized")
    line = STOPPED.splitlines().index("    return y  # stop here") + 1
    places = client.ask(
        "setBreakpoints", source={"path": str(script)}, breakpoints=[{"line": line}]
    )
    client.ask("configurationDone")
    client.answer(attached)
    thread = client.event("stopped")["threadId"]
    frames = client.ask("stackTrace", threadId=thread)["stackFrames"]
    scopes = client.ask("scopes", frameId=frames[0]["id"])["scopes"]
    reference = scopes[0]["variablesReference"]
    local = client.ask("variables", variablesReference=reference)
    client.ask("setVariable", variablesReference=reference, name="y", value="50")
    client.ask("continue", threadId=thread)
    client.event("terminated")
    client.close()
    return [
        [point["verified"] for point in places["breakpoints"]],
        [(frame["name"], frame["line"], frame["source"]["path"]) for frame in frames],
        [(variable["name"], variable["value"]) for variable in local["variables"]],
    ]


def test_a_debugger_stops_where_it_would(tmp_path: Path) -> None:
    pytest.importorskip("debugpy")
    comparison = Comparison(tmp_path, Case(STOPPED, environment=QUIET))
    script = comparison.folder / "program.py"
    seen = []
    for process in (comparison.plain(), comparison.recorded()):
        found = stopped(process, script)
        seen.append((found, comparison.ended(process)))
    assert seen[0] == seen[1]
    assert seen[0][1].out == "50\n"
    assert [name for name, _, _ in seen[0][0][1]] == ["inner", "<module>"]
