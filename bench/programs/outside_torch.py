"""Small programs that use different libraries of CUDA, and what lies outside torch at their end.

    python bench/programs/outside_torch.py NAME        # prints the bytes, by `cudaMemGetInfo`
    python bench/programs/outside_torch.py --list

No figure of a simulated GPU was fitted to them.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

PROGRAMS: dict[str, Callable[[], object]] = {}
#: What lives until the figures are taken.
KEPT: list[Any] = []


def program(function: Callable[[], object]) -> Callable[[], object]:
    """Add a program under its name."""
    PROGRAMS[function.__name__.replace("_", "-")] = function
    return function


def train(model: nn.Module, *inputs: torch.Tensor, steps: int = 3, **options: Any) -> None:
    """Train on the square of the output."""
    optimizer = torch.optim.AdamW(model.parameters(), **options)
    for _ in range(steps):
        model(*inputs).float().square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    KEPT.extend((model, optimizer))


def mlp(width: int = 256, dtype: torch.dtype = torch.float32) -> nn.Sequential:
    layers = [nn.Linear(width, width) for _ in range(3)]
    return nn.Sequential(layers[0], nn.ReLU(), layers[1], nn.ReLU(), layers[2]).to("cuda", dtype)


def images(size: int = 64, batch: int = 4) -> torch.Tensor:
    return torch.randn(batch, 3, size, size, device="cuda")


def tokens(vocabulary: int, length: int = 64) -> torch.Tensor:
    return torch.randint(vocabulary, (2, length), device="cuda")


def small_llama() -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        hidden_size=256,
        intermediate_size=512,
        num_hidden_layers=3,
        num_attention_heads=4,
        vocab_size=1000,
    )
    return LlamaForCausalLM(config).to("cuda", torch.bfloat16)


@program
def perceptron() -> None:
    train(mlp(), torch.randn(32, 256, device="cuda"))


@program
def perceptron_sgd_without_bias() -> None:
    weight = torch.randn(256, 256, device="cuda", requires_grad=True)
    for _ in range(3):
        (torch.randn(8, 256, device="cuda") @ weight).sum().backward()


@program
def autocast() -> None:
    with torch.autocast("cuda", torch.bfloat16):
        train(mlp(), torch.randn(32, 256, device="cuda"))


@program
def inference() -> None:
    with torch.no_grad():
        mlp(dtype=torch.float16)(torch.randn(8, 256, device="cuda", dtype=torch.float16))


@program
def generation() -> None:
    model = small_llama().eval()
    KEPT.append(model.generate(tokens(1000), max_new_tokens=16, do_sample=True))


@program
def language_model() -> None:
    model = small_llama()
    ids = tokens(1000)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    for _ in range(3):
        model(ids, labels=ids).loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def convolutional() -> nn.Module:
    layers: list[nn.Module] = [nn.Conv2d(3, 64, 7, 2, 3, bias=False)]
    for before, after in ((64, 64), (64, 128), (128, 256)):
        layers += [nn.BatchNorm2d(before), nn.ReLU(), nn.Conv2d(before, after, 3, 2, 1)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(256, 10)).cuda()


@program
def convolutional_network() -> None:
    train(convolutional(), images())


@program
def convolutional_network_in_halves() -> None:
    model = convolutional().to(memory_format=torch.channels_last)
    with torch.autocast("cuda", torch.float16):
        train(model, images().to(memory_format=torch.channels_last))


@program
def vision_transformer() -> None:
    layer = nn.TransformerEncoderLayer(128, 4, 256, batch_first=True, dropout=0.1)
    patches = nn.Sequential(nn.Conv2d(3, 128, 16, 16), nn.Flatten(2))
    encoder = nn.TransformerEncoder(layer, 2)

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.patches, self.encoder = patches, encoder

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = self.encoder(self.patches(x).transpose(1, 2))
            return out

    train(Model().cuda(), images())


@program
def upsampling() -> None:
    down, up = nn.Conv2d(3, 16, 3, 2, 1), nn.ConvTranspose2d(16, 3, 4, 2, 1)
    train(nn.Sequential(down, nn.BatchNorm2d(16), nn.ReLU(), up).cuda(), images())


@program
def gradient_penalty() -> None:
    critic = nn.Sequential(nn.Conv2d(3, 16, 3, 2), nn.SiLU(), nn.Conv2d(16, 1, 3, 2)).cuda()
    x = images().requires_grad_()
    (slope,) = torch.autograd.grad(critic(x).sum(), x, create_graph=True)
    slope.square().mean().backward()


@program
def recurrent_network() -> None:
    class Last(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cells, self.head = nn.LSTM(64, 128, 2), nn.Linear(128, 10)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = self.head(self.cells(x)[0])
            return out

    train(Last().cuda(), torch.randn(20, 4, 64, device="cuda"))


@program
def gaussian_process() -> None:
    x = torch.randn(200, 3, device="cuda")
    scale = torch.ones((), device="cuda", requires_grad=True)
    for _ in range(3):
        kernel = (-torch.cdist(x, x).square() * scale).exp() + torch.eye(200, device="cuda")
        factor = torch.linalg.cholesky(kernel)
        solved = torch.linalg.solve_triangular(factor, x, upper=False)
        (solved.square().sum() + factor.diagonal().log().sum()).backward()


@program
def principal_components() -> None:
    x = torch.randn(500, 64, device="cuda")
    KEPT.append(torch.linalg.svd(x - x.mean(0), full_matrices=False))


@program
def fourier_layer() -> None:
    weight = torch.randn(16, 33, device="cuda", dtype=torch.cfloat, requires_grad=True)
    x = torch.randn(4, 16, 64, device="cuda")
    for _ in range(3):
        torch.fft.irfft(torch.fft.rfft(x) * weight).square().mean().backward()


@program
def graphed_callable() -> None:
    model = mlp()
    x = torch.randn(32, 256, device="cuda", requires_grad=True)
    train(torch.cuda.make_graphed_callables(model, (x,)), x)


@program
def graph_of_inference() -> None:
    model, x = mlp(), torch.randn(32, 256, device="cuda")
    with torch.no_grad():
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            model(x)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            model(x)
    graph.replay()
    KEPT.append(graph)


@program
def compiled_training() -> None:
    train(torch.compile(mlp()), torch.randn(32, 256, device="cuda"))


@program
def compiled_with_graphs() -> None:
    model = torch.compile(mlp(), mode="reduce-overhead")
    with torch.no_grad():
        for _ in range(4):
            model(torch.randn(32, 256, device="cuda"))


def group() -> None:
    import torch.distributed as distributed

    address = f"tcp://127.0.0.1:{29_000 + os.getpid() % 2_000}"
    distributed.init_process_group(
        "nccl", init_method=address, rank=0, world_size=1, device_id=torch.device("cuda:0")
    )


@program
def data_parallel_of_one_rank() -> None:
    group()
    train(nn.parallel.DistributedDataParallel(mlp()), torch.randn(32, 256, device="cuda"))


@program
def sharded_of_one_rank() -> None:
    from torch.distributed.fsdp import fully_shard

    group()
    train(fully_shard(mlp()), torch.randn(32, 256, device="cuda"))


@program
def four_streams() -> None:
    model, x = mlp(), torch.randn(32, 256, device="cuda")
    with torch.no_grad():
        for _ in range(4):
            KEPT.append(torch.cuda.Stream())
            with torch.cuda.stream(KEPT[-1]):
                model(x)


@program
def four_threads() -> None:
    model, x, barrier = mlp(), torch.randn(32, 256, device="cuda"), threading.Barrier(4)

    def work() -> None:
        with torch.no_grad():
            model(x)
        barrier.wait()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@program
def pinned_loader() -> None:
    data = torch.utils.data.TensorDataset(torch.randn(64, 256))
    loader = torch.utils.data.DataLoader(data, 16, num_workers=2, pin_memory=True)
    model = mlp()
    for (batch,) in loader:
        train(model, batch.cuda(non_blocking=True), steps=1)


@program
def sparse_embedding() -> None:
    table = nn.Embedding(1000, 64, sparse=True).cuda()
    optimizer = torch.optim.SparseAdam(list(table.parameters()))
    for _ in range(3):
        table(tokens(1000)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


@program
def elementwise() -> None:
    x = torch.randn(1000, device="cuda", requires_grad=True)
    F.gelu(x).softmax(-1).sum().backward()


@program
def attention() -> None:
    q = torch.randn(2, 4, 128, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    F.scaled_dot_product_attention(q, q, q, is_causal=True).sum().backward()


def main() -> None:
    if sys.argv[1:] == ["--list"]:
        print("\n".join(PROGRAMS))
        return
    PROGRAMS[sys.argv[1]]()
    torch.cuda.synchronize()
    free, total = torch.cuda.mem_get_info()
    print("outside torch:", total - free - torch.cuda.memory_reserved(), flush=True)
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
