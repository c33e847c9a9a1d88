"""`python -m floodmark mcp`, asked line by line: the answers are as their schemas describe them.

The tools that only read are tried with the SDK's own client in `crates/floodmark/tests/it/mcp.rs`.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import queue
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from support.answer_schema import check_answer
from support.checkout import FIXTURES
from support.phantoms import needs_cuda_build
from support.programs import PATIENCE

SNAPSHOT = FIXTURES / "recordings" / "allocator" / "default-oom.pickle.gz"
TRAIN = """
import torch
model = torch.nn.Linear(1024, 1024, device="cuda")
model(torch.zeros(64, 1024, device="cuda")).sum().backward()
print("not for the protocol")
"""
MODEL = """
import torch
from neighbour import WIDTH

def network():
    return torch.nn.Linear(WIDTH, WIDTH, bias=False)

def number():
    return 3
"""
PLAIN = """
import torch
model = torch.nn.Sequential(*(torch.nn.Linear(512, 512) for _ in range(4))).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(3):
    model(torch.zeros(64, 512, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
# It says which process it is, and waits for ever.
WAITS = """
import os
os.mkfifo("gate")
with open("started", "w") as file:
    file.write(str(os.getpid()))
open("gate").read()
"""


class Assistant:
    """A client that sends lines and keeps what comes back."""

    def __init__(self, folder: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "floodmark", "mcp"],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._numbers = itertools.count(1)
        self._lines: queue.Queue[dict[str, Any]] = queue.Queue()
        self._answers: dict[int, dict[str, Any]] = {}
        self.progress: list[dict[str, Any]] = []
        threading.Thread(target=self._read, daemon=True).start()
        client = {"name": "test", "version": "1"}
        first = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
        assert self.ask("initialize", first)["serverInfo"]["name"] == "floodmark"
        self.write({"method": "notifications/initialized"})

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(json.loads(line))

    def write(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self.process.stdin.flush()

    def send(self, method: str, params: dict[str, Any]) -> int:
        """Ask without waiting; the number of the request."""
        number = next(self._numbers)
        self.write({"id": number, "method": method, "params": params})
        return number

    def wait(self, number: int) -> dict[str, Any]:
        while number not in self._answers:
            answer = self._lines.get(timeout=PATIENCE)
            if answer.get("method") == "notifications/progress":
                self.progress.append(answer["params"])
            else:
                self._answers[answer["id"]] = answer
        answer = self._answers[number]
        assert "error" not in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        return self.wait(self.send(method, params))

    def call(self, tool: str, **arguments: object) -> dict[str, Any]:
        return self.ask("tools/call", {"name": tool, "arguments": arguments})


@pytest.fixture
def assistant(tmp_path: Path) -> Iterator[Assistant]:
    shutil.copy(SNAPSHOT, tmp_path / "x.pickle.gz")
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "waits.py").write_text(WAITS)
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "neighbour.py").write_text("WIDTH = 1024\n")
    (tmp_path / "plain.py").write_text(PLAIN)
    found = Assistant(tmp_path)
    yield found
    assert found.process.stdin is not None
    found.process.stdin.close()
    assert found.process.wait(PATIENCE) == 0


FAKE = {"gpu": "t4", "engine": "fake"}
CALLS: list[tuple[str, str, dict[str, object]]] = [
    ("info", "info", {"trace": "x.pickle.gz"}),
    ("report", "report", {"trace": "x.pickle.gz", "by": "tensor"}),
    ("oom", "oom", {"trace": "x.pickle.gz"}),
    ("oom", "oom -", {"message": "CUDA out of memory. Tried to allocate 2.00 GiB"}),
    ("diff", "diff", {"a": "x.pickle.gz", "b": "x.pickle.gz"}),
    ("leaks", "leaks", {"trace": "x.pickle.gz"}),
    ("simulate", "simulate", {"trace": "x.pickle.gz"}),
    ("advise", "advise", {"trace": "x.pickle.gz"}),
    ("plan", "plan", {"program": "plain.py", "memory": "600MiB", **FAKE}),
    ("fit", "fit", {"program": "train.py", "args": ["{N}"], "vary": ["N=64,128"], **FAKE}),
    ("estimate_model", "estimate", {"program": "model.py", "factory": "network", **FAKE}),
    ("estimate", "estimate", {"program": "train.py", "gpu": "t4", "engine": "fake"}),
]


def test_every_answer_is_as_its_schema_describes(assistant: Assistant, tmp_path: Path) -> None:
    tools = {tool["name"]: tool for tool in assistant.ask("tools/list", {})["tools"]}
    assert set(tools) == {tool for tool, _, _ in CALLS} | {"ledger"}
    for tool, command, arguments in CALLS:
        jsonschema.Draft202012Validator.check_schema(tools[tool]["inputSchema"])
        jsonschema.Draft202012Validator(tools[tool]["inputSchema"]).validate(arguments)
        result = assistant.call(tool, **arguments)
        assert not result["isError"], result["content"]
        answer = result["structuredContent"]
        jsonschema.Draft202012Validator(tools[tool]["outputSchema"]).validate(answer)
        check_answer(command, answer)
    assert answer["fits"] is True
    assert result["content"][0]["text"].startswith("Fits: ")
    # Without `output` no trace is kept.
    assert sorted(path.name for path in tmp_path.glob("*.flood*")) == []


@needs_cuda_build
def test_a_ledger_is_as_its_schema_describes(assistant: Assistant) -> None:
    phantom = {"gpu": "t4", "engine": "phantom", "output": "gpu.flood"}
    estimated = assistant.call("estimate", program="train.py", args=["64"], **phantom)
    assert not estimated["isError"], estimated["content"]
    found = assistant.call("ledger", trace="gpu.flood", at="end")
    assert not found["isError"], found["content"]
    check_answer("ledger", found["structuredContent"])
    assert found["content"][0]["text"].startswith("In use on cuda:0: ")


def test_a_program_that_waits_delays_no_other_call_and_ends_when_cancelled(
    assistant: Assistant, tmp_path: Path
) -> None:
    started = tmp_path / "started"
    call = {"name": "estimate", "arguments": {"program": "waits.py", "engine": "fake"}}
    number = assistant.send("tools/call", call)
    pid = _wait_for(lambda: started.exists() and started.read_text())
    assert not assistant.call("report", trace="x.pickle.gz")["isError"]
    assert Path(f"/proc/{pid}").exists()
    cancelled = {"requestId": number, "reason": "enough"}
    assistant.write({"method": "notifications/cancelled", "params": cancelled})
    _wait_for(lambda: _has_ended(int(pid)))
    assert not assistant.call("report", trace="x.pickle.gz")["isError"]


def test_a_model_is_what_its_function_returns(assistant: Assistant) -> None:
    given = {"program": "model.py", "engine": "fake"}
    answer = assistant.call("estimate_model", factory="network", **given)["structuredContent"]
    assert (answer["fits"], answer["peak_allocated"]) == (True, 4 << 20)
    assert [row["location"] for row in answer["devices"][0]["categories"]] == ["parameter"]
    wrong = assistant.call("estimate_model", factory="number", **given)
    assert "returns a int, not a `torch.nn.Module`" in wrong["content"][0]["text"]
    missing = assistant.call("estimate_model", **given)
    assert missing["isError"]
    assert "the argument `factory` is missing" in missing["content"][0]["text"]


@needs_cuda_build
def test_an_estimate_records_what_the_call_requests(assistant: Assistant) -> None:
    given = {"program": "train.py", "gpu": "t4", "engine": "phantom"}
    assert assistant.call("estimate", **given)["structuredContent"]["op_calls"] is None
    recorded = assistant.call("estimate", ops=True, **given)["structuredContent"]["op_calls"]
    assert recorded["by"] == "op-call"


def test_tries_are_the_progress_of_a_search(assistant: Assistant) -> None:
    given = {"program": "train.py", "args": ["{N}"], "vary": ["N=64,128"], **FAKE}
    call = {"name": "fit", "arguments": given, "_meta": {"progressToken": "a"}}
    answer = assistant.wait(assistant.send("tools/call", call))
    assert answer["structuredContent"]["largest"] == 128
    assert answer["content"][0]["text"].startswith("N = 128")
    said = [each["message"] for each in assistant.progress]
    assert any(line.startswith("N = 64 fits: ") for line in said), said
    assert [each["progress"] for each in assistant.progress] == list(range(1, len(said) + 1))
    assert {each["progressToken"] for each in assistant.progress} == {"a"}


def test_a_program_is_ended_after_its_time(assistant: Assistant, tmp_path: Path) -> None:
    """However far it is by then."""
    for tool, more in (("estimate", {}), ("fit", {"vary": ["N=1,2"], "args": ["{N}"]})):
        result = assistant.call(tool, program="waits.py", engine="fake", time_limit=2, **more)
        assert result["isError"]
        assert "has not ended within 2 s" in result["content"][0]["text"]
        _wait_for(lambda: _processes_in(tmp_path) == {assistant.process.pid})
    assert not assistant.call("report", trace="x.pickle.gz")["isError"]


def _processes_in(folder: Path) -> set[int]:
    """The processes that work in a folder."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (process / "cwd").readlink() == folder:
                found.add(int(process.name))
    return found


def _has_ended(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return True
    # Killed, and not yet collected by its parent.
    return state == "Z"


def _wait_for(state: Any) -> Any:
    patience = time.monotonic() + PATIENCE
    while not (found := state()):
        assert time.monotonic() < patience
        time.sleep(0.02)
    return found
