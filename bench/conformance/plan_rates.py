"""Measures the rates of a GPU for the `[rates]` of its profile, with which plans are estimated.

    python bench/conformance/plan_rates.py

Prints TOML to put into `crates/floodmark-profiles/profiles/GPU.toml`. Needs torch with CUDA, and
floodmark.
Each rate is what a training step of common size reaches, not the peak of a data sheet.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch.nn import functional as F

ROUNDS = 20


def seconds_of(call: Callable[[], object], rounds: int = ROUNDS) -> float:
    """The time of a call on the GPU, without the host's time."""
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(rounds):
        call()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) / 1000 / rounds


def matmul_gflops(dtype: torch.dtype) -> int:
    """Products of the shapes of a transformer: 8,192 tokens, widths 1,024 to 4,096."""
    flops, seconds = 0, 0.0
    for inner, outer in ((1024, 4096), (4096, 1024), (2048, 2048), (4096, 4096)):
        a = torch.randn(8192, inner, device="cuda", dtype=dtype)
        b = torch.randn(inner, outer, device="cuda", dtype=dtype)
        flops += 2 * 8192 * inner * outer
        seconds += seconds_of(lambda a=a, b=b: a @ b)
    return round(flops / seconds / 1e9)


def attention_gflops() -> int:
    """Forward and backward passes of causal attention, 8 × 1,024 tokens, 16 heads of 64."""
    shape = (8, 16, 1024, 64)
    q, k, v = (
        torch.randn(shape, device="cuda", dtype=torch.bfloat16, requires_grad=True)
        for _ in range(3)
    )

    def step() -> None:
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        out.backward(out.detach())

    # As torch's flop counter counts: two products forward and five backward, causal or not.
    flops = 7 * 2 * 8 * 16 * 1024 * 1024 * 64
    return round(flops / seconds_of(step) / 1e9)


def memory_mb_per_s() -> int:
    """Elementwise operators that read two tensors and write one."""
    a, b = (torch.randn(64 << 20, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    out = torch.empty_like(a)
    seconds = seconds_of(lambda: torch.add(a, b, out=out))
    return round(3 * a.nbytes / seconds / 1e6)


def host_mb_per_s() -> int:
    """Copies to pinned memory and back."""
    on_gpu = torch.empty(256 << 20, device="cuda", dtype=torch.uint8)
    on_host = torch.empty(256 << 20, dtype=torch.uint8, pin_memory=True)

    def copy() -> None:
        on_host.copy_(on_gpu, non_blocking=True)
        on_gpu.copy_(on_host, non_blocking=True)

    return round(2 * on_gpu.nbytes / seconds_of(copy, 5) / 1e6)


def kernel_nanos() -> int:
    """The time between two tiny kernels of one CUDA graph."""
    x = torch.zeros(256, device="cuda")
    graph = torch.cuda.CUDAGraph()
    x.add_(1)
    with torch.cuda.graph(graph):
        for _ in range(1000):
            x.add_(1)
    return round(seconds_of(graph.replay, 5) / 1000 * 1e9)


def launch_nanos() -> int:
    """The time that the host takes for an operator of a training step, autograd included."""
    x = torch.zeros(256, device="cuda", requires_grad=True)
    count = 2000
    for _ in range(2):
        torch.cuda.synchronize()
        began = time.perf_counter()
        y = x
        for _ in range(count):
            y = y * 1.0
        y.sum().backward()
        torch.cuda.synchronize()
        seconds = time.perf_counter() - began
    # Each product is an operator forward and one backward.
    return round(seconds / (2 * count) * 1e9)


def simulated_launch_nanos() -> int:
    """The same on a simulated GPU of this host; the difference is the driver's time."""
    command = [sys.executable, "-c", SIMULATED, str(Path(__file__).parent)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(done.stdout)


#: Without computed values, which cost time that the program does not need.
SIMULATED = """
import sys
import floodmark
from floodmark.estimate.phantom import simulated_gpu

with floodmark.phantom("h200"):
    sys.path.insert(0, sys.argv[1])
    import plan_rates
    simulated_gpu.current().phantom.stop_following()
    print(plan_rates.launch_nanos())
"""


def main() -> None:
    torch.backends.cuda.matmul.allow_tf32 = False
    print(f"# Measured on one {torch.cuda.get_device_name()} with torch {torch.__version__}.")
    print("[rates]")
    print(f"half_gflops = {matmul_gflops(torch.bfloat16):_}")
    print(f"single_gflops = {matmul_gflops(torch.float32):_}")
    print(f"attention_gflops = {attention_gflops():_}")
    print(f"memory_mb_per_s = {memory_mb_per_s():_}")
    print(f"host_mb_per_s = {host_mb_per_s():_}")
    print(f"kernel_nanos = {kernel_nanos():_}")
    launch = launch_nanos()
    print(f"launch_nanos = {launch:_}")
    print(f"driver_nanos = {max(0, launch - simulated_launch_nanos()):_}")


if __name__ == "__main__":
    main()
