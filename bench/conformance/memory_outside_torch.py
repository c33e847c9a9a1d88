"""Measures what lies outside torch's allocator on a GPU, by what a process does first.

    python bench/conformance/memory_outside_torch.py FOLDER [--seconds N] [--only NAME …]
    python bench/conformance/memory_outside_torch.py --table FILE

Each act runs alone, in a process that has only made a context, and then all of them in one process,
in two orders, and with `CUDA_MODULE_LOADING=EAGER`. After each, the memory in use is what the
driver says (`cudaMemGetInfo`), less what torch's allocator has reserved. Nothing else may use the
GPU meanwhile. Writes `outside-torch.json` to FOLDER. Needs torch with CUDA.

`--only` runs the acts of these names alone, each `--runs` times. An act may be followed by settings
of NCCL: `"NCCL's all_reduce; NCCL_MAX_NCHANNELS=2"`.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")  # so that processes can be forked
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

#: Seconds for one process.
LIMIT = 60


def acts() -> dict[str, Callable[[], object]]:
    """What programs do first, by name. The order is that of the first process with all of them."""
    import torch
    from torch.nn import functional as F

    half = torch.bfloat16

    def made(*shape: int, dtype: torch.dtype = torch.float32, grad: bool = False) -> Any:
        return torch.ones(shape, device="cuda", dtype=dtype, requires_grad=grad)

    def attention(backend: str, dtype: torch.dtype, grad: bool) -> None:
        from torch.nn.attention import SDPBackend, sdpa_kernel

        q = made(2, 4, 128, 64, dtype=dtype, grad=grad)
        with sdpa_kernel(getattr(SDPBackend, backend)):
            out = F.scaled_dot_product_attention(q, q, q, is_causal=True)
        if grad:
            out.sum().backward()

    def convolution(dims: int, dtype: torch.dtype = torch.float32, grad: bool = False) -> None:
        call: Any = (F.conv1d, F.conv2d, F.conv3d)[dims - 1]
        x, w = (
            made(2, 16, *[12] * dims, dtype=dtype, grad=grad),
            made(16, 16, *[3] * dims, dtype=dtype),
        )
        out = call(x, w.requires_grad_(grad))
        if grad:
            out.sum().backward()

    def optimizer(**options: bool) -> None:
        weight = torch.nn.Parameter(made(64, 64))
        weight.grad = torch.ones_like(weight)
        torch.optim.AdamW([weight], **options).step()

    def streams(count: int, product: bool = False) -> None:
        kept.extend(torch.cuda.Stream() for _ in range(count))
        for one in kept[-count:]:
            with torch.cuda.stream(one):
                x = made(64, 64)
                _ = x @ x if product else x + x

    def graph(nodes: int, with_products: bool = False) -> None:
        x = made(64, 64)
        _ = x @ x if with_products else x
        captured = torch.cuda.CUDAGraph()
        with torch.cuda.graph(captured):
            for _ in range(nodes):
                x = x @ x if with_products else x + 1
        captured.replay()
        kept.append(captured)

    def group() -> None:
        import torch.distributed as distributed

        if distributed.is_initialized():
            return
        address = f"tcp://127.0.0.1:{29_000 + os.getpid() % 2_000}"
        distributed.init_process_group("nccl", init_method=address, rank=0, world_size=1)

    def all_reduce() -> None:
        import torch.distributed as distributed

        group()
        distributed.all_reduce(made(1024))

    def second_group() -> None:
        import torch.distributed as distributed

        all_reduce()
        distributed.all_reduce(made(1024), group=distributed.new_group([0]))

    def collectives(count: int) -> None:
        """One communicator more for each."""
        import torch.distributed as distributed

        group()
        for number in range(count):
            distributed.all_reduce(made(1024), group=distributed.new_group([0]) if number else None)

    def product(dtype: torch.dtype = torch.float32) -> None:
        weight = made(64, 64, dtype=dtype, grad=True)
        F.linear(made(64, 64, dtype=dtype), weight).sum().backward()

    def in_threads(count: int, work: Callable[[], object]) -> None:
        """All threads live until the last one is done: none takes the handles of another."""
        barrier = threading.Barrier(count)

        def body() -> None:
            work()
            barrier.wait()

        threads = [threading.Thread(target=body) for _ in range(count)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()

    def compiled_kernels(count: int) -> None:
        torch._dynamo.config.recompile_limit = 1000
        for number in range(count):
            torch.compile(lambda x, n=number: (x.sin() * n).relu().sum(-1))(made(10, 100 + number))

    def compiled() -> None:
        torch.compile(lambda x: (x.sin() * 2).relu())(made(1000))

    def compiled_graphs() -> None:
        call = torch.compile(lambda x: (x.cos() * 2).relu(), mode="reduce-overhead")
        for _ in range(3):
            call(made(1000))

    def lstm() -> None:
        net = torch.nn.LSTM(64, 64).cuda()
        net(made(5, 3, 64))[0].sum().backward()

    def positive() -> Any:
        return torch.eye(64, device="cuda") * 2

    kept: list[Any] = []
    return {
        "nothing": lambda: None,
        "fill": lambda: made(1024).fill_(2),
        "add": lambda: made(1024) + 1,
        "random numbers": lambda: torch.randn(1024, device="cuda"),
        "softmax": lambda: F.softmax(made(8, 1024), -1),
        "layer norm, with its gradient": lambda: (
            F.layer_norm(made(8, 64, grad=True), (64,)).sum().backward()
        ),
        "sum and mean": lambda: (made(1024).sum(), made(8, 8).mean(0)),
        "cross entropy, with its gradient": lambda: F.cross_entropy(
            made(8, 100, grad=True), torch.zeros(8, device="cuda", dtype=torch.long)
        ).backward(),
        "embedding, with its gradient": lambda: (
            F.embedding(torch.zeros(8, device="cuda", dtype=torch.long), made(100, 64, grad=True))
            .sum()
            .backward()
        ),
        "sort": lambda: torch.randn(5000, device="cuda").sort(),
        "cumsum": lambda: made(5000).cumsum(0),
        "nonzero": lambda: made(5000).nonzero(),
        "unique": lambda: made(5000).unique(),
        "index_put": lambda: made(100).index_put_(
            (torch.zeros(9, device="cuda", dtype=torch.long),), made(9), True
        ),
        "topk": lambda: made(5000).topk(5),
        "multinomial": lambda: made(100).multinomial(5),
        "fp32 product": lambda: made(64, 64) @ made(64, 64),
        "bf16 product": lambda: made(64, 64, dtype=half) @ made(64, 64, dtype=half),
        "bf16 product of 4,096": lambda: (
            made(4096, 4096, dtype=half) @ made(4096, 4096, dtype=half)
        ),
        "batched product": lambda: torch.bmm(made(4, 64, 64), made(4, 64, 64)),
        "linear with a bias": lambda: F.linear(made(64, 64), made(64, 64), made(64)),
        "fp8 product": lambda: torch._scaled_mm(
            made(64, 64).to(torch.float8_e4m3fn),
            made(64, 64).to(torch.float8_e4m3fn).t(),
            scale_a=made(1)[0],
            scale_b=made(1)[0],
            out_dtype=half,
        ),
        "int8 product": lambda: torch._int_mm(
            made(64, 64).to(torch.int8), made(64, 64).to(torch.int8)
        ),
        "fp32 product, with its gradient": product,
        "bf16 product, with its gradient": lambda: product(half),
        "products on 4 threads": lambda: in_threads(4, lambda: made(64, 64) @ made(64, 64)),
        "triangular solve": lambda: torch.linalg.solve_triangular(
            positive(), made(64, 64), upper=True
        ),
        "attention, flash": lambda: attention("FLASH_ATTENTION", half, False),
        "attention, flash, with its gradient": lambda: attention("FLASH_ATTENTION", half, True),
        "attention, cuDNN, with its gradient": lambda: attention("CUDNN_ATTENTION", half, True),
        "attention, efficient, with its gradient": lambda: attention(
            "EFFICIENT_ATTENTION", torch.float32, True
        ),
        "convolution": lambda: convolution(2),
        "convolution, with its gradient": lambda: convolution(2, grad=True),
        "bf16 convolution, with its gradient": lambda: convolution(2, half, grad=True),
        "convolution and product, with gradients": lambda: (convolution(2, grad=True), product()),
        "convolutions on 4 threads": lambda: in_threads(4, lambda: convolution(2)),
        "1-d convolution": lambda: convolution(1),
        "3-d convolution": lambda: convolution(3),
        "batch norm, with its gradient": lambda: (
            torch.nn.BatchNorm2d(16).cuda()(made(2, 16, 8, 8, grad=True)).sum().backward()
        ),
        "LSTM, with its gradient": lstm,
        "FFT": lambda: torch.fft.fft(made(64, 64)),
        "FFT of a prime length": lambda: torch.fft.fft(made(8, 1009)),
        "Cholesky": lambda: torch.linalg.cholesky(positive()),
        "Cholesky on 2 threads": lambda: in_threads(2, lambda: torch.linalg.cholesky(positive())),
        "Cholesky, with its gradient": lambda: (
            torch.linalg.cholesky(positive().requires_grad_()).sum().backward()
        ),
        "SVD": lambda: torch.linalg.svd(made(64, 64)),
        "eigenvalues": lambda: torch.linalg.eigh(positive()),
        "QR": lambda: torch.linalg.qr(made(64, 64)),
        "LU": lambda: torch.linalg.solve(positive(), made(64, 64)),
        "sparse product": lambda: torch.sparse.mm(positive().to_sparse_csr(), made(64, 64)),
        "AdamW, foreach": lambda: optimizer(foreach=True),
        "AdamW, fused": lambda: optimizer(fused=True),
        "1,000 events": lambda: kept.extend(_recorded_events(1000)),
        "a stream": lambda: streams(1),
        "31 streams": lambda: streams(31),
        "8 streams with products": lambda: streams(8, product=True),
        "a graph of 10 nodes": lambda: graph(10),
        "a graph of 1,000 nodes": lambda: graph(1000),
        "a graph of 20,000 nodes": lambda: graph(20_000),
        "32 graphs of 1,000 nodes": lambda: [graph(1000) for _ in range(32)],
        "a graph of 1,000 products": lambda: graph(1000, with_products=True),
        "compiled": compiled,
        "20 compiled kernels": lambda: compiled_kernels(20),
        "compiled, with graphs": compiled_graphs,
        "an NCCL group": group,
        "NCCL's all_reduce": all_reduce,
        "a second NCCL group": second_group,
        "4 NCCL groups": lambda: collectives(4),
    }


def _recorded_events(count: int) -> list[Any]:
    import torch

    events = [torch.cuda.Event(enable_timing=True) for _ in range(count)]
    for one in events:
        one.record()
    return events


def outside() -> dict[str, int]:
    """The bytes in use on the GPU that torch's allocator has not reserved, and those it has."""
    import torch

    torch.cuda.synchronize()
    free, total = torch.cuda.mem_get_info()
    reserved = torch.cuda.memory_reserved()
    return {"outside": total - free - reserved, "reserved": reserved}


def in_turn(names: list[str], file: Path) -> None:
    """Do these acts one after the other, and write what lies outside torch after each."""
    import torch

    calls = acts()
    torch.empty(1, device="cuda")
    found: list[dict[str, Any]] = [{"act": "context", **outside()}]
    for name in names:
        try:
            calls[name]()
            found.append({"act": name, **outside()})
        except Exception as error:
            found.append({"act": name, "error": f"{type(error).__name__}: {error}"[:300]})
        file.write_text(json.dumps(found))


def in_a_fork(names: list[str], file: Path, variables: dict[str, str]) -> Any:
    """`in_turn` in a fork of this process."""
    child = os.fork()
    if child == 0:
        os.environ.update(variables)
        log = os.open(file.with_suffix(".log"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(log, 1)
        os.dup2(log, 2)
        try:
            in_turn(names, file)
        except BaseException:
            traceback.print_exc()
        os._exit(0)
    ends = time.monotonic() + LIMIT
    while not os.waitpid(child, os.WNOHANG)[0]:
        if time.monotonic() > ends:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            break
        time.sleep(0.01)
    if file.exists():
        return json.loads(file.read_text())
    return file.with_suffix(".log").read_text()[-500:]


def used_by_the_driver() -> str:
    """The memory in use while no process uses the GPU, as `nvidia-smi` says."""
    query = ["nvidia-smi", "--query-gpu=memory.used,driver_version", "--format=csv,noheader"]
    return subprocess.run(query, capture_output=True, text=True, check=False).stdout.strip()


def measure(folder: Path, seconds: float) -> None:
    """All of them; what does not fit into the time is left out."""
    import machine
    import torch

    began = time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    found: dict[str, Any] = {
        "torch": torch.__version__,
        "before": used_by_the_driver(),
        "alone": {},
    }
    names = list(acts())
    orders = {
        "in order": (names, {}),
        "in the other order": (names[::-1], {}),
        "eager": (names, {"CUDA_MODULE_LOADING": "EAGER"}),
    }
    for order, (each, variables) in orders.items():
        found[order] = in_a_fork(each, folder / f"{order}.part.json", variables)
    for name in names:
        if time.monotonic() - began < seconds:
            part = folder / f"{len(found['alone'])}.part.json"
            found["alone"][name] = in_a_fork([name], part, {})
        else:
            print(f"left out: {name}")
    for part in (*folder.glob("*.part.json"), *folder.glob("*.part.log")):
        part.unlink()
    found["machine"] = machine.describe()
    (folder / "outside-torch.json").write_text(json.dumps(found, indent=1) + "\n")


def measure_only(folder: Path, acts: list[str], runs: int) -> None:
    """These acts, each alone and several times."""
    import machine
    import torch

    folder.mkdir(parents=True, exist_ok=True)
    found: dict[str, Any] = {"torch": torch.__version__, "runs": {}}
    for act in acts:
        name, *settings = act.split("; ")
        variables = dict(setting.split("=", 1) for setting in settings)
        part = folder / "one.part.json"
        for _ in range(runs):
            part.unlink(missing_ok=True)
            found["runs"].setdefault(act, []).append(in_a_fork([name], part, variables))
        print(act, [_added(steps) for steps in found["runs"][act]], flush=True)
    # At the end: this initializes CUDA, after which no process can be forked.
    found["machine"] = machine.describe()
    (folder / "outside-torch-runs.json").write_text(json.dumps(found, indent=1) + "\n")


def _added(steps: Any) -> str:
    """The MiB that the last act added."""
    if not isinstance(steps, list) or "error" in steps[-1]:
        return "failed"
    return f"{(steps[-1]['outside'] - steps[0]['outside']) / 2**20:,.1f}"


def print_table(file: Path) -> None:
    """What each act adds, in MiB, as Markdown."""
    found = json.loads(file.read_text())
    orders = ("in order", "in the other order", "eager")
    added: dict[str, dict[str, str]] = {}
    for name, steps in (*found["alone"].items(), *((order, found[order]) for order in orders)):
        column = name if name in orders else "alone"
        before = 0
        for step in steps if isinstance(steps, list) else []:
            row = added.setdefault(step["act"], {})
            if "error" in step:
                row[column] = "failed"
                continue
            row[column] = f"{(step['outside'] - before) / 2**20:,.1f}"
            before = step["outside"]
    print("| act | alone | in order | in the other order | modules loaded eagerly |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for act, row in added.items():
        cells = (row.get(column, "") for column in ("alone", *orders))
        print(f"| {act} | {' | '.join(cells)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--seconds", type=float, default=90)
    parser.add_argument("--only", nargs="+", metavar="ACT", help="run these acts alone")
    parser.add_argument("--runs", type=int, default=3, help="how often each of `--only`")
    parser.add_argument("--table", type=Path, metavar="FILE", help="print what was measured")
    args = parser.parse_args()
    if args.table:
        print_table(args.table)
    elif args.folder and args.only:
        measure_only(args.folder, args.only, args.runs)
    elif args.folder:
        measure(args.folder, args.seconds)
    else:
        parser.error("a folder or `--table` is needed")


if __name__ == "__main__":
    main()
