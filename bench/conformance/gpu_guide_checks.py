"""Further checks of `gpu_check.py`: CUDA graphs, torch.compile, threads.

The first two check what the guides say. The functions run as those of `gpu_checks.py` do.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import torch
from gpu_checks import DEVICE, Readings, compare_peaks, expect, expect_equal, recording

import floodmark
from floodmark import _core

MIB = 1 << 20


def capture(held: list[torch.Tensor]) -> torch.cuda.CUDAGraph:
    """A graph that keeps 256 MiB, and frees as much again inside its pool."""
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        held.append(torch.ones(64 * MIB, device=DEVICE))
        held[0].add_(torch.ones(64 * MIB, device=DEVICE))
    return graph


def graph_pools() -> None:
    """A replay allocates nothing; memory that a graph freed serves no other request."""
    torch.cuda.set_per_process_memory_fraction(0.01)
    limit = torch.cuda.get_device_properties(0).total_memory // 100
    with recording() as recorder:
        recorder.start()
        torch.ones(1, device=DEVICE).add_(1)
        held: list[torch.Tensor] = []
        graph = capture(held)
        floodmark.step()
        graph.replay()
        torch.cuda.synchronize()
        floodmark.step()
        rest = torch.empty(
            limit - torch.cuda.memory_reserved() - 64 * MIB, dtype=torch.uint8, device=DEVICE
        )
        failed = ""
        try:
            torch.empty(128 * MIB, dtype=torch.uint8, device=DEVICE)
        except torch.OutOfMemoryError as error:
            failed = str(error)
        expect("private pools" in failed, "torch fails, and names private pools")
        del rest
        torch.cuda.empty_cache()
        before = torch.cuda.memory_reserved()
        del graph
        held.clear()
        torch.cuda.empty_cache()
        after = torch.cuda.memory_reserved()
        recorder.stop()
        steps = recorder.report(by="step", device=DEVICE)
        replayed = next(row for row in steps if row["step"] == 1)
        expect_equal(replayed["peak"], replayed["end"], "a replay allocates nothing")
        oom = recorder.trace.oom(DEVICE).to_dict()
        expect_equal(oom["reason"], "other_pool", f"`oom` says: {oom['why']}")
        expect(before - after >= 512 * MIB, f"its pool is freed: {before - after} bytes")


TRAINING = """
import sys
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = torch.nn.Linear(1024, 4096), torch.nn.Linear(4096, 1024)

    def forward(self, x):
        return self.down(torch.nn.functional.gelu(self.up(x)))

model = Net().cuda()
optimizer = torch.optim.AdamW(model.parameters())
if "--compile" in sys.argv:
    model.compile()
for _ in range(4):
    model(torch.randn(512, 1024, device="cuda")).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
print("peak", torch.cuda.max_memory_allocated())
"""


def compiled() -> None:
    """Generated lines allocate; parameters and optimizer states keep the names of their modules."""
    with tempfile.TemporaryDirectory(prefix="floodmark-gpu-") as folder:
        script = Path(folder) / "train.py"
        script.write_text(TRAINING)
        traces: dict[str, floodmark.Trace] = {}
        for name in ("eager", "compiled"):
            path = Path(folder) / f"{name}.flood"
            words = ["-m", "floodmark", "run", "-o", str(path), str(script)]
            words += ["--compile"] if name == "compiled" else []
            env = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(Path(folder) / "inductor")}
            ran = subprocess.run([sys.executable, *words], capture_output=True, text=True, env=env)
            said = ran.stderr[-600:] if ran.returncode else ""
            expect(ran.returncode == 0, f"{name}: exit status {ran.returncode} {said}".rstrip())
            traces[name] = floodmark.Trace.open(path)
            peak = int(ran.stdout.split("peak ")[1].split()[0])
            compare_peaks(traces[name], peak)
        rows: list[Any] = list(traces["compiled"].peak(DEVICE).by_line(top=None))
        generated = sum(row["bytes"] for row in rows if "inductor" in str(row["location"]))
        expect(generated > 0, f"{generated} bytes at the peak have a generated line")
        modules = {row["location"] for row in traces["compiled"].peak(DEVICE).by_module(top=None)}
        expect({"up", "down"} <= modules, f"modules at the peak: {sorted(map(str, modules))}")
        eager, fused = (
            {row["location"]: row["bytes"] for row in trace.peak(DEVICE).by_category()}
            for trace in traces.values()
        )
        for category in ("parameter", "optimizer state"):
            text = f"{category}: {fused.get(category)} bytes, as in the eager program"
            expect_equal(fused.get(category), eager.get(category), text)
        expect(True, f"categories at the peak, eager: {eager}; compiled: {fused}")


def begins_beside_threads() -> None:
    """Threads allocate and free on the GPU and on the host while recordings begin."""
    is_done = threading.Event()
    held: list[dict[int, torch.Tensor]] = [{}, {}]

    def work(blocks: dict[int, torch.Tensor], device: str) -> None:
        number = 0
        while not is_done.is_set():
            number += 1
            blocks[number % 50] = torch.empty(
                MIB + 1024 * (number % 50), dtype=torch.uint8, device=device
            )

    devices = [DEVICE, "cpu"]
    workers = [threading.Thread(target=work, args=pair) for pair in zip(held, devices, strict=True)]
    for worker in workers:
        worker.start()
    while any(len(blocks) < 50 for blocks in held):
        is_done.wait(0.001)
    recorders = []
    for _ in range(20):
        _core.disarm()  # The next recording searches for live blocks again.
        recorders.append(floodmark.trace().start())
        recorders[-1].stop()
    _core.disarm()
    last = floodmark.trace().start()
    is_done.set()
    for worker in workers:
        worker.join()
    readings = Readings()
    readings.take("the threads have ended")
    last.stop()
    readings.compare(last.trace)
    for device in devices:
        counts = []
        for recorder in recorders:
            rows = recorder.trace.end(device).by_tensor(top=None)
            counts.append(sum(MIB <= row["bytes"] <= 4 * MIB for row in rows))
        text = f"{min(counts)} to {max(counts)} live blocks on {device}: 50, one being replaced"
        expect(min(counts) >= 50 and max(counts) <= 51, text)
