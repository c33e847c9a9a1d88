"""`floodmark metrics`, read by Prometheus's own parser."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from support.growing import Growing
from support.programs import PATIENCE, Programs

MIB = 1 << 20
Labels = tuple[tuple[str, str], ...]


def figures(text: str) -> dict[tuple[str, Labels], float]:
    """Every sample of an answer."""
    return {
        (sample.name.removeprefix("floodmark_"), tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.fixture
def growing(tmp_path: Path) -> Iterator[Growing]:
    program = Growing(tmp_path)
    yield program
    program.close()


def test_figures_are_those_of_the_reports(growing: Growing, programs: Programs) -> None:
    def ask(*words: str) -> str:
        done = programs.floodmark(*words)
        assert done.returncode == 0, done.stderr
        return str(done.stdout)

    growing.take(4 * MIB)
    growing.take(2 * MIB)
    growing.end()
    path = str(growing.path)
    found = figures(ask("metrics", "--once", path))
    info = json.loads(ask("info", "--json", path))
    at_end = json.loads(ask("report", "--json", "--at", "end", "--by", "category", path))
    steps = json.loads(ask("report", "--json", "--by", "step", path))
    cpu = (("device", "cpu"),)
    (device,) = info["devices"]
    assert found["allocated_bytes", cpu] == at_end["allocated"]
    assert found["peak_allocated_bytes", cpu] == device["peak"] == 6 * MIB
    assert found["last_step_peak_bytes", cpu] == steps["rows"][-1]["peak"]
    categories = {
        dict(labels)["category"]: value
        for (name, labels), value in found.items()
        if name == "category_bytes"
    }
    assert categories == {row["category"]: row["bytes"] for row in at_end["rows"]}
    assert found["events_total", ()] == info["events"]
    assert found["steps_total", ()] == info["steps"] == 2
    assert found["failed_requests_total", cpu] == info["failed_requests"] == 0
    assert found["events_lost_total", ()] == 0
    assert found["recording", ()] == 0
    # torch's CPU allocator has neither.
    assert ("reserved_bytes", cpu) not in found
    assert ("allocation_retries_total", cpu) not in found


def test_figures_grow_with_a_program_that_runs(growing: Growing) -> None:
    def scrape() -> dict[tuple[str, Labels], float]:
        # Requests to loopback use no proxy of the environment.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(address, timeout=PATIENCE) as response:
            assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
            return figures(response.read().decode())

    growing.take(4 * MIB)
    words = ["metrics", str(growing.path), "--listen", "127.0.0.1:0"]
    with subprocess.Popen(
        [sys.executable, "-m", "floodmark", *words], stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        address = server.stdout.readline().strip()
        assert address.startswith("http://127.0.0.1:")
        cpu = (("device", "cpu"),)
        before = scrape()
        assert before["allocated_bytes", cpu] == 4 * MIB
        assert before["recording", ()] == 1
        growing.take(4 * MIB)
        after = scrape()
        # The end of the step is the last event: the server may have read the others before it.
        while after["steps_total", ()] == before["steps_total", ()]:
            after = scrape()
        assert after["allocated_bytes", cpu] == 8 * MIB
        assert after["steps_total", ()] == before["steps_total", ()] + 1
        server.send_signal(signal.SIGINT)
        assert server.wait(PATIENCE) == 0
