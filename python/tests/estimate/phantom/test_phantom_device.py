"""What torch asks of CUDA beyond kernels, on a phantom GPU: libraries, memory, graphs, compilers.

Each test runs a program of its own: CUDA begins once in a process.
"""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from support.phantoms import needs_cuda_build, own_caches

pytestmark = needs_cuda_build

MIB = 1 << 20
BEGIN = """
import json, floodmark
from floodmark.estimate.device import library
with floodmark.phantom("h200", memory={memory!r}, gpus={gpus}):
    import torch
found = {{}}
"""
END = """
calls = [call.name for call in library.loaded().library.unsupported()]
print(json.dumps({"found": found, "refused": calls, "folder": library.loaded().folder}))
"""


def run(
    tmp_path: Path, code: str, *, memory: str | None = None, gpus: int = 1, conf: str = ""
) -> tuple[dict[str, Any], list[str]]:
    """What the program found, and the calls of CUDA that were refused."""
    path = tmp_path / "program.py"
    path.write_text(BEGIN.format(memory=memory, gpus=gpus) + code + END)
    environment = os.environ | own_caches(tmp_path) | {"PYTORCH_CUDA_ALLOC_CONF": conf}
    done = subprocess.run(
        [sys.executable, str(path)], capture_output=True, text=True, timeout=600, env=environment
    )
    assert done.returncode == 0, done.stderr[-3000:]
    answer = json.loads(done.stdout.splitlines()[-1])
    assert not Path(answer["folder"]).exists(), "the folder goes away with the process"
    return answer["found"], answer["refused"]


LIBRARIES = """
a = torch.randn(4, 32, 32, device="cuda", requires_grad=True)
tall = torch.randn(2, 100, 20, device="cuda")
linalg = torch.linalg
for name, call in {
    "cholesky": lambda: linalg.cholesky(a), "qr": lambda: linalg.qr(a).Q,
    "svd": lambda: linalg.svd(a).S, "gesvda": lambda: linalg.svd(tall, False, driver="gesvda").S,
    "eigh": lambda: linalg.eigh(a).eigenvalues, "solve": lambda: linalg.solve(a, a),
    "lu": lambda: linalg.lu(a).U, "inv": lambda: linalg.inv(a), "det": lambda: linalg.det(a),
    "lstsq": lambda: linalg.lstsq(tall, tall).solution, "pinv": lambda: linalg.pinv(a),
    "large qr": lambda: linalg.qr(torch.randn(600, 600, device="cuda")).R,
}.items():
    result = call()
    if result.requires_grad:
        result.sum().backward()
    found[name] = list(result.shape)
csr = torch.eye(8).to_sparse_csr().cuda()
found["csr @ dense"] = list((csr @ torch.randn(8, 3, device="cuda")).shape)
found["csr @ csr"] = (csr @ csr)._nnz()
found["csr + csr"] = (csr + csr)._nnz()
signal = torch.randn(4, 48000, device="cuda")
before = torch.cuda.memory_allocated()
torch.cuda.reset_peak_memory_stats()
result = torch.fft.rfft(signal)
found["rfft"] = list(result.shape)
found["rfft peak"] = torch.cuda.max_memory_allocated() - before
found["cudnn"] = torch.backends.cudnn.version()
"""

DISTRIBUTIONS = """
x = torch.randn(4, 4, device="cuda", requires_grad=True)
scale = torch.nn.functional.softplus(x)
found["normal"] = list(torch.normal(x.detach(), scale.detach()).shape)
normal = torch.distributions.Normal(x, scale)
normal.log_prob(normal.rsample()).sum().backward()
found["sample"] = list(normal.sample((3,)).shape)
found["category"] = list(torch.distributions.Categorical(logits=x).sample().shape)
found["multinomial"] = list(torch.multinomial(scale.detach(), 2).shape)
found["eig"] = [list(part.shape) for part in torch.linalg.eig(x.detach())]
"""


def test_operands_that_were_not_computed_are_taken_to_be_fit(tmp_path: Path) -> None:
    found, refused = run(tmp_path, DISTRIBUTIONS)
    assert refused == []
    assert found["normal"] == [4, 4]
    assert found["sample"] == [3, 4, 4]
    assert found["category"] == [4]
    assert found["multinomial"] == [4, 2]
    assert found["eig"] == [[4], [4, 4]]


def test_linear_algebra_sparse_products_and_transforms_run(tmp_path: Path) -> None:
    found, refused = run(tmp_path, LIBRARIES)
    assert refused == []
    assert found["cholesky"] == [4, 32, 32]
    assert found["large qr"] == [600, 600]
    assert found["csr @ dense"] == [8, 3]
    assert found["csr @ csr"] == found["csr + csr"] == 8
    spectrum = 4 * 24001 * 8
    assert found["rfft"] == [4, 24001]
    assert 2 * spectrum <= found["rfft peak"] < 2 * spectrum + 4096, "the result and its copy"


LINKED_RUNTIME = """
linear = torch.nn.Linear(64, 64, device="cuda")
torch.compile(lambda x: linear(x).sin())(torch.ones(2, 64, device="cuda"))
torch.special.zeta(torch.ones(4, device="cuda"), 2.0)
convolution = torch.nn.Conv2d(3, 4, 3, device="cuda")
convolution(torch.ones(1, 3, 8, 8, device="cuda")).sum().backward()
found["torch alone"] = [call.name for call in library.loaded().library.unsupported()]
from cuda.bindings import runtime
found["status"] = runtime.cudaMalloc(1 << 20)[0].name
"""


@pytest.mark.skipif(find_spec("cuda") is None, reason="needs cuda-bindings")
def test_a_library_with_the_runtime_linked_into_it_is_listed(tmp_path: Path) -> None:
    found, refused = run(tmp_path, LINKED_RUNTIME)
    assert found["torch alone"] == [], "CUDA's own libraries go on without private tables"
    assert found["status"] == "cudaErrorSymbolNotFound"
    assert len(refused) == 1
    assert refused[0].startswith("the CUDA runtime that is linked into runtime")


GRAPHS = """
layer = torch.nn.Linear(256, 256).cuda()
x = torch.zeros(64, 256, device="cuda")
warm = torch.cuda.Stream()
with torch.cuda.stream(warm):
    layer(x).sum().backward()
torch.cuda.synchronize()
first = torch.cuda.CUDAGraph()
with torch.cuda.graph(first):
    y = layer(x)
second = torch.cuda.CUDAGraph()
with torch.cuda.graph(second, pool=first.pool()):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        z = y + 1
    torch.cuda.current_stream().wait_stream(side)
third = torch.cuda.CUDAGraph()
with torch.cuda.graph(third):
    w = x * 2
for graph in (first, second, third):
    graph.replay()
found["pools"] = [first.pool() == second.pool(), first.pool() == third.pool()]
segments = torch.cuda.memory_snapshot()
found["own"] = [sum(s["segment_pool_id"] == g.pool() for s in segments) for g in (first, third)]
found["shared"] = sum(s["segment_pool_id"] == (0, 0) for s in segments) > 0
graphed = torch.cuda.make_graphed_callables(layer, (x.clone().requires_grad_(),))
graphed(x.clone().requires_grad_()).sum().backward()
try:
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        (x + 1).sum().item()
    found["wait"] = "allowed"
except RuntimeError as error:
    found["wait"] = str(error)
found["after"] = torch.cuda.is_current_stream_capturing()
"""


def test_graphs_keep_pools_of_their_own(tmp_path: Path) -> None:
    found, refused = run(tmp_path, GRAPHS)
    assert refused == []
    assert found["pools"] == [True, False]
    assert found["shared"]
    assert all(count >= 1 for count in found["own"])
    assert "capture" in found["wait"]
    assert found["after"] is False


MEMORY = """
torch.zeros(1, device="cuda")
free, total = torch.cuda.mem_get_info()
found["info"] = [free, total]
held = []
try:
    while True:
        held.append(torch.empty(300 << 20, dtype=torch.uint8, device="cuda"))
except torch.OutOfMemoryError as error:
    found["error"] = str(error)
found["blocks"] = len(held)
found["reserved"] = torch.cuda.memory_reserved()
held.clear()
held.append(torch.empty(700 << 20, dtype=torch.uint8, device="cuda"))
found["again"] = torch.cuda.memory_allocated()
found["summary"] = "Allocated memory" in torch.cuda.memory_summary()
"""


@pytest.mark.parametrize("conf", ["", "expandable_segments:True", "backend:cudaMallocAsync"])
def test_a_full_device_ends_in_torchs_own_error(tmp_path: Path, conf: str) -> None:
    found, refused = run(tmp_path, MEMORY, memory="2GiB", conf=conf)
    assert [name for name in refused if name != "nvmlDeviceGetGpuFabricInfoV"] == []
    free, total = found["info"]
    assert total == 2 << 30
    assert free < total
    assert found["blocks"] == free // (300 * MIB)
    if found["error"].strip() != "Allocation on device":  # all that 2.4 says of cudaMallocAsync
        assert "300.00 MiB" in found["error"]
        assert "2.00 GiB" in found["error"]
    assert found["again"] >= 700 * MIB
    assert found["summary"]


PLACES = """
import ctypes
here = torch.tensor([1, 2, 3], device="cuda:0")
there = here.to("cuda:1")
found["peer"] = [there.tolist(), torch.cuda.memory_allocated(0), torch.cuda.memory_allocated(1)]
found["access"] = torch.cuda.can_device_access_peer(0, 1)
pinned = torch.ones(10).pin_memory()
found["pinned"] = [pinned.is_pinned(), torch.ones(3).is_pinned(), pinned.cuda().cpu().tolist()]
cuda, managed = ctypes.CDLL(None), ctypes.c_uint64()
status = cuda.cudaMallocManaged(ctypes.byref(managed), ctypes.c_size_t(4096), 1)
ctypes.memset(managed.value, 7, 4096)
found["managed"] = [status, cuda.cudaFree(managed)]
stream, green = torch.cuda.Stream(), ctypes.c_uint64(1)
context, current = ctypes.c_uint64(), ctypes.c_uint64()
handle = ctypes.c_uint64(stream.cuda_stream)
status = cuda.cuStreamGetCtx_v2(handle, ctypes.byref(context), ctypes.byref(green))
cuda.cuCtxGetCurrent(ctypes.byref(current))
found["context"] = [status, context.value == current.value, green.value]
pool = torch.cuda.MemPool() if hasattr(torch.cuda, "MemPool") else None
if pool is not None:
    with torch.cuda.use_mem_pool(pool):
        kept = torch.empty(5 << 20, device="cuda:0")
    segments = torch.cuda.memory_snapshot()
    found["pool"] = [s["total_size"] for s in segments if s["segment_pool_id"] == pool.id]
torch.cuda.set_per_process_memory_fraction(0.001)
try:
    torch.empty(1 << 30, device="cuda:0")
except torch.OutOfMemoryError as error:
    found["fraction"] = str(error)
from torch.multiprocessing.reductions import reduce_tensor
try:
    reduce_tensor(here)
except RuntimeError as error:
    found["ipc"] = str(error).splitlines()[0]
"""


def test_memory_of_every_kind_is_where_it_belongs(tmp_path: Path) -> None:
    found, refused = run(tmp_path, PLACES, gpus=2)
    assert found["peer"] == [[1, 2, 3], 512, 512]
    assert found["context"] == [0, True, 0]
    assert found["access"]
    assert found["pinned"] == [True, False, [1.0] * 10]
    assert found["managed"] == [0, 0]
    assert "Tried to allocate 4.00 GiB" in found["fraction"]
    assert found.get("pool", [20 * MIB]) == [20 * MIB]
    assert "not supported on the simulated GPU" in found["ipc"]
    assert refused == ["cudaIpcGetMemHandle"]


WATCHED = """
from torch.profiler import ProfilerActivity, profile
with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], profile_memory=True) as seen:
    torch.ones(64, 64, device="cuda") @ torch.ones(64, 64, device="cuda")
found["profiled"] = [e.key for e in seen.key_averages() if e.key == "aten::mm"]
begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
begin.record(); end.record(); end.synchronize()
found["elapsed"] = begin.elapsed_time(end)
with torch.cuda.nvtx.range("a"):
    torch.cuda.nvtx.mark("b")
torch.cuda.memory._record_memory_history()
torch.empty(1 << 20, device="cuda")
found["history"] = [e["action"] for e in torch.cuda.memory._snapshot()["device_traces"][0]][:2]
properties = torch.cuda.get_device_properties(0)
found["device"] = [properties.name, properties.multi_processor_count]
"""


def test_profilers_and_histories_see_the_host(tmp_path: Path) -> None:
    found, refused = run(tmp_path, WATCHED)
    assert found["profiled"] == ["aten::mm"]
    assert found["elapsed"] > 0
    assert "alloc" in found["history"]
    assert "simulated" in found["device"][0]
    assert found["device"][1] == 132
    assert all(name.startswith("cupti") for name in refused)


STEP = """
model = torch.nn.Sequential(
    torch.nn.Linear(64, 256), torch.nn.LayerNorm(256), torch.nn.GELU(), torch.nn.Linear(256, 8)
).cuda()
optimizer = torch.optim.AdamW(model.parameters())
scaler = torch.amp.GradScaler("cuda")
for _ in range(2):
    with torch.autocast("cuda", torch.float16):
        loss = torch.nn.functional.cross_entropy(
            model(torch.randn(32, 64, device="cuda")), torch.zeros(32, dtype=int, device="cuda")
        )
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
found["peak"] = [torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()]
"""


def test_a_step_takes_the_same_memory_in_every_run(tmp_path: Path) -> None:
    first, refused = run(tmp_path, STEP)
    assert refused == []
    assert first["peak"][0] > 0
    assert run(tmp_path, STEP)[0] == first


COMPILED = """
import triton
import triton.language as tl

@triton.jit
def add(x, y, n, size: tl.constexpr):
    at = tl.program_id(0) * size + tl.arange(0, size)
    tl.store(y + at, tl.load(x + at, mask=at < n) + 1, mask=at < n)

x = torch.zeros(1000, device="cuda", requires_grad=True)
kernel = add[(8,)](x, torch.empty_like(x), 1000, size=128)
found["registers"] = kernel.n_regs
compiled = torch.compile(lambda x: (x * 2).relu().sum())
compiled(x).backward()
found["grad"] = list(x.grad.shape)
from torch._dynamo.utils import counters
found["graphs"] = counters["stats"]["unique_graphs"]
"""


@pytest.mark.skipif(
    find_spec("triton") is None or shutil.which("cc") is None, reason="no Triton or no compiler"
)
def test_triton_and_inductor_compile_and_launch(tmp_path: Path) -> None:
    found, refused = run(tmp_path, COMPILED)
    assert refused == []
    assert found["registers"] > 0
    assert found["grad"] == [1000]
    assert found["graphs"] == 1


def test_folders_of_killed_processes_are_removed(tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    begin = "import floodmark, os\nwith floodmark.phantom('h200'):\n    pass\n"
    for end in ("os.kill(os.getpid(), 9)", "print(os.listdir(os.environ['TMPDIR']))"):
        done = subprocess.run(
            [sys.executable, "-c", begin + end], env=environment, capture_output=True, text=True
        )
    assert done.returncode == 0, done.stderr
    assert len(ast.literal_eval(done.stdout)) == 1, "its own, and none of the one that was killed"
    assert list(tmp_path.iterdir()) == []


def test_offloaded_memory_takes_none_of_the_host(tmp_path):
    found, refused = run(
        tmp_path,
        """
import resource
def most():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
device = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
pinned = torch.empty(1 << 30, dtype=torch.uint8, pin_memory=True)
pinned[5] = 7
before = most()
pinned.copy_(device)
found["mib"] = most() - before
found["values"] = [pinned[5].item(), pinned[1 << 29].item(), pinned[-1].item()]
""",
    )
    assert found["values"] == [0, 0, 0]
    assert found["mib"] < 64
    assert not refused
