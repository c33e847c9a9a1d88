"""A phantom GPU in a process that has imported torch already.

Each test runs programs of its own: CUDA begins once in a process.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.phantoms import needs_cuda_build, needs_no_gpu

pytestmark = [needs_cuda_build, needs_no_gpu]

FIRST = """
import floodmark
with floodmark.phantom("h200"):
    import torch
"""
#: What a notebook may have done by then: asked for a GPU, and recorded on the host.
LATE = """
import torch
assert not torch.cuda.is_available() and torch.cuda.device_count() == 0
import floodmark
with floodmark.trace("host.flood"):
    torch.ones(1000)
floodmark.phantom("h200").__enter__()
"""
#: Convolutions are planned by cuDNN, `inv` is in a library that torch loads when it is asked for.
WORK = """
import json
from floodmark.estimate.phantom import simulated_gpu
torch.cuda.memory._record_memory_history(context=None)
with floodmark.trace("device.flood") as trace:
    conv = torch.nn.Conv2d(16, 32, 3, padding=1).cuda()
    lstm = torch.nn.LSTM(64, 128, 2).cuda()
    x = torch.randn(8, 16, 64, 64, device="cuda", requires_grad=True)
    conv(x).square().mean().backward()
    lstm(torch.randn(20, 4, 64, device="cuda"))[0].sum().backward()
    square = torch.randn(256, 256, device="cuda")
    torch.linalg.inv(square) @ square
    rows = torch.tensor([0, 3, 0, 5], device="cuda").nonzero()
begin, end = torch.cuda.Event(True), torch.cuda.Event(True)
begin.record(), end.record(), torch.cuda.synchronize()
torch.cuda.profiler.start(), torch.cuda.profiler.stop()
events = torch.cuda.memory._snapshot()["device_traces"][0]
print(json.dumps({
    "sizes": [e["size"] for e in events if e["action"] == "alloc"],
    "peak": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.memory_reserved(),
    "rows": rows.tolist(), "elapsed": begin.elapsed_time(end) >= 0,
    "categories": str(trace.peak().by_category().to_dict()),
    "refused": [call.name for call in simulated_gpu.current().phantom.library.unsupported()],
}))
"""


def run(folder: Path, program: str) -> dict[str, Any]:
    """What the program tells with its last line."""
    path = folder / "program.py"
    path.write_text(program)
    done = subprocess.run(
        [sys.executable, str(path)], capture_output=True, text=True, timeout=600, cwd=folder
    )
    assert done.returncode == 0, done.stderr[-3000:]
    facts: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return facts


def test_it_does_not_matter_whether_torch_was_imported_before(tmp_path: Path) -> None:
    late, first = run(tmp_path, LATE + WORK), run(tmp_path, FIRST + WORK)
    # cuBLAS workspaces are seen where they are handed to the phantom's cuBLAS.
    assert all("workspace" in found.pop("categories") for found in (late, first))
    assert late == first
    assert late["rows"] == [[1], [3]]


REFUSED = """
import ctypes, json, sys
from pathlib import Path
import torch, floodmark
from floodmark import _core

words = []

def play():
    try:
        floodmark.phantom("h200").__enter__()
    except floodmark.PhantomError as error:
        words.append(str(error))

# Any library of the driver's name will do: nothing of it is called.
driver = Path("libcuda.so.1").absolute()
image = _core.phantom_image()
driver.write_bytes(image.replace(b"libfloodmark_phantom.so", b"libcuda.so.1" + bytes(11)))
ctypes.CDLL(str(driver))
play()
print(json.dumps([words, torch.cuda.is_available()]))
"""


def test_what_has_begun_is_refused_and_left_as_it_was(tmp_path: Path) -> None:
    words, is_available = run(tmp_path, REFUSED)
    [word] = words
    assert word.startswith("this process uses a GPU already")
    assert "hint: " in word
    assert not is_available


DURING = """
import json
import torch, floodmark

def work():
    model = torch.nn.Linear(1 << 10, 1 << 10).cuda()
    model(torch.ones(4, 1 << 10, device="cuda")).sum().backward()

with floodmark.trace("host.flood") as recording:
    if {fake_first}:
        with floodmark.estimate(engine="fake"):
            work()
    kept = torch.zeros(1 << 10)
    with floodmark.phantom("h200"):
        work()
cuda = recording.trace.summary()["devices"][1]
names = [row["category"] for row in recording.peak("cuda:0").by_category()]
counted = torch.cuda.max_memory_allocated()
print(json.dumps([cuda["peak"], counted, cuda["name"], sorted(names), torch.cuda.is_available()]))
"""


@pytest.mark.parametrize("fake_first", [False, True])
def test_a_gpu_is_simulated_while_a_recording_runs(tmp_path: Path, fake_first: bool) -> None:
    peak, counted, name, names, is_available = run(tmp_path, DURING.format(fake_first=fake_first))
    assert peak == counted > 4 << 20
    assert "H200" in name
    assert "workspace" in names
    assert is_available


AROUND = """
import json
import torch, floodmark
from floodmark_compat.memory_profiler import MemoryTracer

with floodmark.estimate(engine="phantom") as outer:
    torch.empty(3, device="cuda")
    with MemoryTracer(device="cuda") as inner:
        torch.nn.Linear(1 << 12, 1 << 12).cuda()
found = outer.estimate.to_dict()
with floodmark.estimate(engine="phantom") as later:
    torch.empty(3, device="cuda")
print(json.dumps([found["fits"], found["unknown"], found["losses"], str(outer),
                  inner.get_max_memory_allocated()[0], later.estimate.to_dict()["fits"]]))
"""


def test_an_estimate_around_fake_tensors_does_not_say_that_they_fit(tmp_path: Path) -> None:
    fits, unknown, losses, text, inside, later = run(tmp_path, AROUND)
    assert (fits, unknown) == (None, "fake_tensors")
    assert any("fake tensors are not recorded here" in loss for loss in losses)
    assert "Fits" not in text
    assert "had blocks of fake tensors" in text
    assert inside > 64 << 20
    assert later is True


WORLD = """
import json, sys
import torch
from torch.distributed import all_reduce, get_world_size, init_process_group
from floodmark import _core
from floodmark.estimate.phantom import simulated_gpu

arguments = ["floodmark", "estimate", "--rank", "5", "--world", "64", "program.py"]
simulated_gpu.simulate(_core.main(arguments, sys.executable).machine)
# As a launcher's programs do: torch 2.15 takes the tensors of a rank's own device alone.
torch.cuda.set_device(5)
init_process_group("cpu:gloo,cuda:nccl")
total = torch.ones(2, dtype=torch.long, device="cuda")
all_reduce(total)
on_host = torch.tensor([2])
all_reduce(on_host)
print(json.dumps([get_world_size(), total.tolist(), on_host.item()]))
"""


def test_names_that_were_imported_before_are_those_of_the_world(tmp_path: Path) -> None:
    assert run(tmp_path, WORLD) == [64, [64, 64], 128]


BACKWARD = """
import json
import torch, floodmark
torch.ones(4, requires_grad=True).sum().backward()

def train():
    model = torch.nn.Linear(64, 64, device="cuda")
    model(torch.randn(8, 64, device="cuda")).sum().backward()

try:
    with floodmark.estimate(engine="phantom"):
        train()
    said = "nothing"
except floodmark.PhantomError as error:
    said = str(error)
with floodmark.estimate() as est:
    train()
print(json.dumps([said, est.engine, est.level("cuda")[1] > 64 * 64 * 4 * 2]))
"""


def test_after_a_backward_pass_on_the_cpu_fake_tensors_answer(tmp_path: Path) -> None:
    said, engine, has_gradients = run(tmp_path, BACKWARD)
    assert said.startswith("a backward pass ran before the simulated GPU was created")
    assert (engine, has_gradients) == ("fake", True)
