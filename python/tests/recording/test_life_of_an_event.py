"""One allocation, followed through the stops of `docs/life-of-an-event.md`."""

from __future__ import annotations

import json

import torch
from support.flood_file import ALLOC, FREE, FloodFile, line_of
from torch import nn

import floodmark
from floodmark.__main__ import main

BYTES = 64 * 1024 * 4


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(32, 1024)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.layer(x)  # here
        return h.square().sum()  # keeps h for backward


def test_an_allocation_passes_every_stop(tmp_path, monkeypatch, capfd):
    path = tmp_path / "life.flood"
    model, x = Model(), torch.ones(64, 32)
    with floodmark.trace(path):
        # Stops 1 to 4: torch asks for memory, and our hooks see it.
        model(x).backward()
        # Stop 5: it is in the journal while the program runs, whatever becomes of it.
        segments = list(path.with_name("life.flood.journal").glob("*.seg"))
        assert segments, "the journal is there while the recording runs"
        running = floodmark.Trace.open(path)
        assert BYTES in [row["bytes"] for row in running.peak("cpu").by_tensor(top=None)]
    assert not path.with_name("life.flood.journal").exists()

    # Stops 6 to 9: the file, read by somebody else.
    file = FloodFile(path)
    made = [event for event in file.events if event.kind == ALLOC and event.bytes == BYTES]
    forward = next(event for event in made if not event.backward)
    here = line_of(Model.forward, "here")
    assert forward.module == "layer"
    assert (__file__, here) in [(frame.file, frame.line) for frame in forward.frames]
    assert any(event.kind == FREE and event.freed_bytes == BYTES for event in file.events)

    # Stops 10 and 11: our own reading, and a question.
    row = next(
        row
        for row in floodmark.Trace.open(path).peak("cpu").by_line(top=None)
        if row["line"] == here and not row["backward"]
    )
    assert (row["file"], row["bytes"], row["count"]) == (__file__, BYTES, 1)
    assert row["module"] == "layer"

    # Stop 12: the same row as a person sees it, and as a program does.
    where = (
        f":{here} (Model.forward)" if row["function"] == "Model.forward" else f":{here} (forward)"
    )
    monkeypatch.setattr("sys.argv", ["floodmark", "report", str(path), "--top", "0"])
    assert main() == 0
    shown = [line for line in capfd.readouterr().out.splitlines() if line.endswith(where)]
    assert [line.split()[:2] for line in shown] == [["256.0", "KiB"]]
    monkeypatch.setattr("sys.argv", ["floodmark", "report", str(path), "--top", "0", "--json"])
    assert main() == 0
    rows = json.loads(capfd.readouterr().out)["rows"]
    assert [r["bytes"] for r in rows if r["line"] == here and not r["backward"]] == [BYTES]
