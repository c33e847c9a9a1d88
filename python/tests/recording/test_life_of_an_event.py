"""Two allocations, followed through the stops of `docs/life-of-an-event.md`."""

from __future__ import annotations

import json

import torch
from support.flood_file import ALLOC, FREE, FloodFile, line_of
from support.phantoms import needs_cuda_build
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
        chunks = list(path.with_name("life.flood.journal").glob("*.chunk"))
        assert chunks, "the journal is there while the recording runs"
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


#: An allocation on a simulated GPU, and what torch itself says of it.
ESTIMATED = """
    import json
    import torch

    def allocate():
        return torch.empty(64 << 20, dtype=torch.uint8, device="cuda")  # here

    x = allocate()
    x.add_(1)
    [segment] = torch.cuda.memory_snapshot()
    facts = {
        "gpu": torch.cuda.get_device_name(0),
        "addr": x.data_ptr(),
        "segment": [segment["address"], segment["total_size"]],
        "allocated": torch.cuda.memory_allocated(),
        "value": int(x[0]),  # read
    }
    with open("facts.json", "w") as file:
        json.dump(facts, file)
"""


@needs_cuda_build
def test_an_estimated_allocation_passes_every_stop(programs):
    size = 64 << 20
    program = programs.write(ESTIMATED, "train.py")
    lines = program.read_text().splitlines()
    [here] = [at for at, line in enumerate(lines, 1) if line.endswith("# here")]
    [read] = [at for at, line in enumerate(lines, 1) if line.endswith("# read")]
    done = programs.floodmark("estimate", "--gpu", "rtx4090", "-o", "life.flood", "train.py")
    assert done.returncode == 0, done.stderr

    # Stops 1 to 4: torch finds the GPU of the profile, and its allocator has a segment of it.
    facts = json.loads((programs.folder / "facts.json").read_text())
    assert facts["gpu"] == "NVIDIA GeForce RTX 4090 (simulated)"
    assert facts["segment"] == [facts["addr"], size]
    assert facts["allocated"] == size

    # Stop 5: the trace has the event, and says that the GPU was simulated.
    path = programs.folder / "life.flood"
    [made] = FloodFile(path).allocations(size)
    assert made.addr == facts["addr"]
    assert (str(program), here) in [(frame.file, frame.line) for frame in made.frames]

    # Stops 6 to 8: no kernel ran, the value is assumed, and the verdict says so.
    assert facts["value"] == 0
    trace = floodmark.Trace.open(path)
    estimate = trace.estimate()
    assert estimate.fits is True
    [device] = estimate.rows
    assert (device["peak_allocated"], device["peak_reserved"]) == (size, size)
    assert device["needed"] == size + device["outside_torch"]
    assert done.stdout.startswith("Fits: NVIDIA GeForce RTX 4090 (simulated)")
    assert estimate.to_dict()["engine"] == "phantom"
    [assumed] = estimate.to_dict()["reads"]
    assert assumed["line"] == read
    assert f"train.py:{read}" in done.stdout

    # Stop 9: any other question.
    [row] = trace.peak("cuda:0").by_line(top=None)
    assert (row["line"], row["bytes"], row["count"]) == (here, size, 1)
