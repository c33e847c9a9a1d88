"""A client of a debugger, as an editor has one: a small part of the Debug Adapter Protocol."""

from __future__ import annotations

import json
import socket
from typing import Any

from support.programs import PATIENCE


class Client:
    """Speaks with a debugger that listens on a port."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        self._file = self._socket.makefile("rb")
        self._count = 0
        self._events: list[dict[str, Any]] = []

    def send(self, command: str, **arguments: Any) -> int:
        """Ask for something; the number of the question."""
        self._count += 1
        message = {"seq": self._count, "type": "request", "command": command}
        body = json.dumps({**message, "arguments": arguments}).encode()
        self._socket.sendall(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        return self._count

    def answer(self, number: int) -> dict[str, Any]:
        """The answer to a question; events that come before it wait."""
        while True:
            message = self._read()
            if message["type"] == "response" and message["request_seq"] == number:
                assert message["success"], message
                return dict(message.get("body") or {})

    def ask(self, command: str, **arguments: Any) -> dict[str, Any]:
        """Ask, and wait for the answer."""
        return self.answer(self.send(command, **arguments))

    def event(self, name: str) -> dict[str, Any]:
        """Wait for an event."""
        while True:
            for event in self._events:
                if event["event"] == name:
                    self._events.remove(event)
                    return dict(event.get("body") or {})
            self._read()

    def close(self) -> None:
        """Leave; the program goes on."""
        self._file.close()
        self._socket.close()

    def _read(self) -> dict[str, Any]:
        length = 0
        while line := self._file.readline().strip():
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        assert length, "the debugger has left"
        message: dict[str, Any] = json.loads(self._file.read(length))
        if message["type"] == "event":
            self._events.append(message)
        return message
