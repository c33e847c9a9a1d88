"""`python -m floodmark mcp`, asked line by line: the answers are as their schemas describe them.

The tools that only read are tried with the SDK's own client in `crates/floodmark/tests/it/mcp.rs`.
"""

from __future__ import annotations

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
from support.programs import PATIENCE

SNAPSHOT = FIXTURES / "recordings" / "allocator" / "default-oom.pickle.gz"
TRAIN = """
import torch
model = torch.nn.Linear(1024, 1024, device="cuda")
model(torch.zeros(64, 1024, device="cuda")).sum().backward()
print("not for the protocol")
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
    found = Assistant(tmp_path)
    yield found
    assert found.process.stdin is not None
    found.process.stdin.close()
    assert found.process.wait(PATIENCE) == 0


CALLS: list[tuple[str, str, dict[str, object]]] = [
    ("info", "info", {"trace": "x.pickle.gz"}),
    ("report", "report", {"trace": "x.pickle.gz", "by": "tensor"}),
    ("oom", "oom", {"trace": "x.pickle.gz"}),
    ("oom", "oom -", {"message": "CUDA out of memory. Tried to allocate 2.00 GiB"}),
    ("diff", "diff", {"a": "x.pickle.gz", "b": "x.pickle.gz"}),
    ("leaks", "leaks", {"trace": "x.pickle.gz"}),
    ("simulate", "simulate", {"trace": "x.pickle.gz"}),
    ("advise", "advise", {"trace": "x.pickle.gz"}),
    ("estimate", "estimate", {"program": "train.py", "gpu": "t4", "engine": "fake"}),
]


def test_every_answer_is_as_its_schema_describes(assistant: Assistant, tmp_path: Path) -> None:
    tools = {tool["name"]: tool for tool in assistant.ask("tools/list", {})["tools"]}
    assert set(tools) == {tool for tool, _, _ in CALLS}
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
