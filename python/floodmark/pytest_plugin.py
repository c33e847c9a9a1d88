"""Memory tests without a GPU: the fixture `phantom_gpu` and the marker `gpu_memory`.

    @pytest.mark.gpu_memory(limit="20GiB", gpu="rtx4090")
    def test_a_step_fits(): ...

CUDA is initialised once per process, so each such test runs in a process of its own, which loads
the phantom before anything else (`pytest_process`). Its reports appear as if the test had run here.

Sees: pytest. Talks to: `pytest_process`, through its environment and a file. Does not import torch:
a test run without a simulated GPU costs only `import floodmark`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from floodmark.estimate.phantom.pytest_process import VARIABLE

if TYPE_CHECKING:
    from floodmark.estimate.phantom.simulated_gpu import phantom

_MARK = "gpu_memory"
_FIXTURE = "phantom_gpu"
_KEYWORDS = frozenset({"limit", "gpu", "gpus", "memory", "of"})
_MEASURES = ("allocated", "reserved", "needed")

#: Options that select tests, distribute them or write reports: only the parent gets them.
_OF_THE_PARENT = {
    "basetemp",
    "capture",
    "collectonly",
    "dist",
    "failedfirst",
    "htmlpath",
    "keyword",
    "lf",
    "log_file",
    "looponfail",
    "markexpr",
    "maxfail",
    "no_cov",
    "numprocesses",
    "report_log",
    "stepwise",
    "usepdb",
    "verbose",
    "xmlpath",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    about = "The GPU that is simulated where no marker names one."
    parser.addini("phantom_gpu", about, default="h200")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "gpu_memory(limit=None, gpu=None, gpus=1, memory=None, of='allocated'): run on a simulated "
        "GPU, and fail when the peak on a device is above the limit",
    )
    if VARIABLE in os.environ:
        config.pluginmanager.register(_Child(config, json.loads(os.environ[VARIABLE])), _Child.NAME)


class Wanted:
    """The GPU and the limit that a test requests."""

    def __init__(self, item: pytest.Item) -> None:
        mark = item.get_closest_marker(_MARK)
        given: dict[str, Any] = dict(mark.kwargs) if mark is not None else {}
        if mark is not None and (mark.args or not _KEYWORDS.issuperset(given)):
            raise pytest.UsageError(
                f"`{_MARK}` takes keyword arguments only: {', '.join(sorted(_KEYWORDS))}"
            )
        self.gpu = os.fspath(given.get("gpu") or item.config.getini("phantom_gpu"))
        self.gpus = int(given.get("gpus", 1))
        self.memory: int | str | None = given.get("memory")
        self.limit: int | str | None = given.get("limit")
        self.of = str(given.get("of", "allocated"))
        if self.of not in _MEASURES:
            raise pytest.UsageError(f"`{_MARK}(of=…)` is one of {', '.join(_MEASURES)}")

    @staticmethod
    def by(item: pytest.Item) -> bool:
        """Whether a test has the marker or the fixture."""
        names = getattr(item, "fixturenames", ())
        return _FIXTURE in names or item.get_closest_marker(_MARK) is not None


@pytest.fixture
def phantom_gpu(request: pytest.FixtureRequest) -> phantom:
    """The GPU that is simulated: `name`, `memory`, `context`, `is_checked`."""
    child = request.config.pluginmanager.get_plugin(_Child.NAME)
    if child is None:
        pytest.fail("`phantom_gpu` cannot be requested while a test runs: name it as an argument")
    gpu: phantom = child.gpu
    return gpu


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> object:
    """Run a test on a simulated GPU in a process of its own."""
    if VARIABLE in os.environ or not Wanted.by(item):
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for report in _reports_from_child(item):
        item.ihook.pytest_runtest_logreport(report=report)
    _tear_down(item, nextitem)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def _tear_down(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Free what earlier tests kept and the next one does not use."""
    session: Any = item.session
    call = pytest.CallInfo.from_call(
        lambda: session._setupstate.teardown_exact(nextitem), when="teardown"
    )
    if call.excinfo is not None:
        report = item.ihook.pytest_runtest_makereport(item=item, call=call)
        item.ihook.pytest_runtest_logreport(report=report)


def _reports_from_child(item: pytest.Item) -> Iterator[pytest.TestReport]:
    try:
        wanted = Wanted(item)
    except pytest.UsageError as error:
        yield _failed(item, str(error))
        return
    config = item.config
    with tempfile.TemporaryDirectory(prefix="floodmark-pytest-") as folder:
        asked = {**vars(wanted), "folder": folder, "options": _options(config)}
        environment = {**os.environ, VARIABLE: json.dumps(asked)}
        command = [sys.executable, "-m", "floodmark.estimate.phantom.pytest_process", *_words(item)]
        done = subprocess.run(
            command,
            env=environment,
            cwd=config.invocation_params.dir,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        path = Path(folder) / "reports"
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    phases = []
    for line in lines:
        report = config.hook.pytest_report_from_serializable(config=config, data=json.loads(line))
        # JSON has no tuples, and pytest expects them here.
        report.location = tuple(report.location)
        report.user_properties = [tuple(pair) for pair in report.user_properties]
        if isinstance(report.longrepr, list):
            report.longrepr = tuple(report.longrepr)
        phases.append(report.when)
        yield report
    if "teardown" not in phases:
        how = f"status {done.returncode}" if done.returncode >= 0 else f"signal {-done.returncode}"
        yield _failed(item, f"the process of this test ended with {how}\n{done.stdout}")


def _failed(item: pytest.Item, why: str) -> pytest.TestReport:
    return pytest.TestReport(
        nodeid=item.nodeid,
        location=item.location,
        keywords=dict.fromkeys(item.keywords, 1),
        outcome="failed",
        longrepr=why,
        when="call",
    )


def _words(item: pytest.Item) -> list[str]:
    """The command line under which the child finds the same test."""
    config = item.config
    words = ["-q", "-p", "no:cacheprovider", "--rootdir", str(config.rootpath)]
    if config.inipath is not None:
        words += ["-c", str(config.inipath)]
    for plugin in config.getoption("plugins", None) or []:
        words += ["-p", str(plugin)]
    if __name__ not in (config.getoption("plugins", None) or []):
        words += ["-p", __name__]
    for setting in config.getoption("override_ini", None) or []:
        words += ["-o", str(setting)]
    # Ids are counted from the root; words are paths from where pytest was started.
    file, _, rest = item.nodeid.partition("::")
    return [*words, f"{config.rootpath / file}::{rest}"]


def _options(config: pytest.Config) -> dict[str, Any]:
    """The values of options that plugins and conftests added."""
    options = {}
    for key, value in vars(config.option).items():
        if key not in _OF_THE_PARENT and isinstance(value, str | int | float | bool | None):
            options[key] = value
    return options


class _Child:
    """The plugin of the child process: simulates the GPU, records the test, writes its reports."""

    NAME = "floodmark-child"

    def __init__(self, config: pytest.Config, asked: dict[str, Any]) -> None:
        from floodmark.estimate.phantom.simulated_gpu import phantom

        self._config = config
        self._asked = asked
        self._folder = Path(asked["folder"])
        # `pytest_process` has loaded this phantom before pytest; this call returns the same one.
        self.gpu = phantom(asked["gpu"], memory=asked["memory"], gpus=asked["gpus"]).__enter__()
        for key, value in asked["options"].items():
            if hasattr(config.option, key):
                setattr(config.option, key, value)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self) -> Generator[None, object, object]:
        """Record the whole test with its fixtures."""
        from floodmark.recording.recorder import Recorder

        self._recorder = Recorder(self._folder / "test.flood", devices="cuda").start()
        try:
            return (yield)
        finally:
            self._recorder.stop()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Fail a test that passed but whose peak is above its limit."""
        report = yield
        if call.when == "call" and report.passed and self._asked["limit"] is not None:
            why = self._why_above()
            if why:
                report.outcome = "failed"
                report.longrepr = why
        return report

    def _why_above(self) -> str:
        from floodmark.recording.recorder import parse_bytes

        # Fixtures that are torn down later do not count for this test.
        self._recorder.stop()
        trace = self._recorder.trace
        of, limit = self._asked["of"], parse_bytes(self._asked["limit"])
        rows = trace.estimate().rows
        for row in rows:
            figures = {
                "needed": row["needed"],
                "allocated": row["peak_allocated"],
                "reserved": row["peak_reserved"],
            }
            if figures[of] > limit:
                device = row["device"]
                peak = f"{figures[of]:,} B ({figures[of] / (1 << 30):.3f} GiB)"
                what = "needed" if of == "needed" else of
                return (
                    f"{peak} {what} on {device} of {self.gpu.name} (simulated), above the limit of "
                    f"{self._asked['limit']}\n\n{trace.peak(device).by_line(top=10)}"
                )
        return ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Write the report for the parent."""
        config = self._config
        data = config.hook.pytest_report_to_serializable(config=config, report=report)
        with (self._folder / "reports").open("a", encoding="utf-8") as file:
            file.write(json.dumps(data) + "\n")
