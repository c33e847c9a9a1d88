"""Tensors that no label names get their category from the frames that allocate them."""

from __future__ import annotations

import copy
import csv
import sys
from collections import Counter

import pytest
import torch
from torch import nn

import floodmark

WIDTH, STEPS = 64, 3
WEIGHT = WIDTH * WIDTH * 4

RANKS = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")

DDP = """
    import torch, torch.distributed as dist
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = nn.Sequential(*[nn.Linear(64, 64, bias=False) for _ in range(2)])
    model = DistributedDataParallel(model, gradient_as_bucket_view={view})
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for step in range(3):
        model(torch.randn(8, 64)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    dist.destroy_process_group()
    """

FSDP = """
    import torch, torch.distributed as dist
    from torch import nn
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = nn.Sequential(*[nn.Linear(64, 64, bias=False) for _ in range(3)])
    mesh = init_device_mesh("cpu", (2,))
    for layer in model:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    for step in range(3):
        model(torch.randn(8, 64)).square().mean().backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= 0.1 * parameter.grad
                parameter.grad = None
        import floodmark
        floodmark.step()
    dist.destroy_process_group()
    """


def ranks(programs, source):
    """The tensors of both ranks that are as large as a layer or half of one."""
    pytest.importorskip("torch.distributed.run")
    programs.write(source)
    done = programs.python(*RANKS, "-m", "floodmark", "run", "-o", "ranks", "program.py")
    assert done.returncode == 0, done.stderr
    found = []
    for rank in range(2):
        path = programs.folder / "ranks" / f"rank-000{rank}.flood"
        export = programs.floodmark("export", str(path), "--to", "csv", "-o", "-")
        events = csv.DictReader(export.stdout.splitlines())
        rows = [row for row in events if row["kind"] == "alloc" and row["device"] == "cpu"]
        # Threads of gloo have no frames.
        found.append([row for row in rows if int(row["bytes"]) >= WEIGHT // 2 and row["file"]])
    return found


def categories_of(rows, file):
    """How many tensors of a category a file of torch allocates in each step."""
    below = [row for row in rows if row["file"].endswith(file)]
    return {
        step: Counter((row["category"], int(row["bytes"])) for row in below if row["step"] == step)
        for step in sorted({row["step"] for row in below})
    }


def test_buckets_of_ddp_are_communication(programs):
    both = ranks(programs, DDP.format(view=False))
    for rows in both:
        found = categories_of(rows, "torch/nn/parallel/distributed.py")
        # DDP orders its buckets anew before the second step.
        assert found == {step: Counter({("communication", 2 * WEIGHT): 1}) for step in ("0", "1")}
        gradients = [row for row in rows if row["category"] == "gradient"]
        assert [int(row["bytes"]) for row in gradients] == [WEIGHT] * 2 * STEPS
        assert not [row for row in rows if row["category"] == "unknown"]
    assert [row["category"] for row in both[0]] == [row["category"] for row in both[1]]


def test_buckets_of_ddp_that_are_the_gradients_are_gradients(programs):
    for rows in ranks(programs, DDP.format(view=True)):
        found = categories_of(rows, "torch/nn/parallel/distributed.py")
        assert found == {step: Counter({("gradient", 2 * WEIGHT): 1}) for step in ("0", "1")}


def test_shards_gradients_and_collectives_of_fsdp_have_their_categories(programs):
    """Also without an optimizer: nothing says what is a gradient but FSDP's own frames."""
    both = ranks(programs, FSDP)
    for rows in both:
        shards = [row for row in rows if row["function"].endswith("_init_sharded_param")]
        assert [(row["category"], int(row["bytes"])) for row in shards] == [
            ("parameter", WEIGHT // 2)
        ] * 3
        # By layer and step: an all-gather in forward, one in backward if it was resharded, a
        # reduce-scatter with its output, which is the shard of the gradient.
        steps = categories_of(rows, "_fsdp_collectives.py")
        assert list(steps) == [str(step) for step in range(STEPS)]
        for found in steps.values():
            assert found == steps["0"]
            assert set(found) == {("communication", WEIGHT), ("gradient", WEIGHT // 2)}
            assert found["gradient", WEIGHT // 2] == 3
        unsharded = [row for row in rows if row["file"].endswith("_fsdp_param.py")]
        assert {row["category"] for row in unsharded} == {"parameter"}
    assert [row["category"] for row in both[0]] == [row["category"] for row in both[1]]


def by_bytes(trace, size):
    """The categories of what was allocated during a recording, by its size."""
    rows = trace.lifetimes("cpu")
    return [row["category"] for row in rows if row["bytes"] == size and row["phase"]]


def test_copies_of_a_model_are_parameters(record):
    class Ema:
        """As programs write it themselves: new tensors in every update."""

        def __init__(self, model):
            self.shadow = [parameter.detach().clone() for parameter in model.parameters()]

        def update(self, model):
            pairs = zip(self.shadow, model.parameters(), strict=True)
            self.shadow = [0.9 * old + 0.1 * new.detach() for old, new in pairs]

    model = nn.Linear(WIDTH, WIDTH, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    with record() as recorded:
        copies = [torch.optim.swa_utils.AveragedModel(model), copy.deepcopy(model)]
        ema = Ema(model)
        for _ in range(STEPS):
            model(torch.ones(2, WIDTH)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            ema.update(model)
    rows = recorded.trace.end("cpu").by_tensor(top=None).rows
    found = Counter(row["category"] for row in rows if row["bytes"] == WEIGHT and row["phase"])
    # What `ema` keeps has its frame where Python says the class of a function.
    assert found["parameter"] == 2 + (sys.version_info >= (3, 11))
    del copies, ema


def test_gradients_of_autograd_grad_are_gradients(record):
    model = nn.Linear(WIDTH, WIDTH, bias=False)
    with record() as recorded:
        for _ in range(STEPS):
            (gradient,) = torch.autograd.grad(model(torch.ones(2, WIDTH)).sum(), [model.weight])
            floodmark.step()
    assert by_bytes(recorded.trace, WEIGHT) == ["gradient"] * STEPS
    del gradient


def test_states_of_an_optimizer_that_fails_are_states(record):
    """As when the first step of an optimizer runs out of memory."""

    class Fails(torch.optim.Optimizer):
        def __init__(self, parameters):
            super().__init__(parameters, {})

        def step(self, closure=None):
            self.kept = torch.zeros(WIDTH, 3 * WIDTH)
            raise RuntimeError("mine")

    model = nn.Linear(WIDTH, WIDTH, bias=False)
    optimizer = Fails(model.parameters())
    with record() as recorded:
        model(torch.ones(2, WIDTH)).sum().backward()
        with pytest.raises(RuntimeError, match="mine"):
            optimizer.step()
    assert by_bytes(recorded.trace, 3 * WEIGHT) == ["optimizer state"]


@pytest.mark.parametrize("cache", [None, "static"])
def test_keys_and_values_of_transformers_are_a_kv_cache(record, cache):
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(
        n_layer=2, n_head=2, n_embd=64, vocab_size=256, n_positions=64, bos_token_id=0
    )
    config.eos_token_id = None
    model = transformers.GPT2LMHeadModel(config).eval()
    tokens = torch.ones(1, 8, dtype=torch.long)
    with record() as recorded:
        model.generate(
            tokens, max_new_tokens=4, do_sample=False, pad_token_id=0, cache_implementation=cache
        )
    rows = recorded.trace.lifetimes("cpu")
    sizes = Counter(row["bytes"] for row in rows if row["category"] == "KV cache")
    # Keys and values of two layers: for 8 tokens and then for one more each time, or for all.
    each = 64 * 4
    most = 11 if cache is None else max(sizes) // each
    assert sizes[most * each] == 4
    if cache is None:
        assert sizes == Counter({tokens * each: 4 for tokens in range(8, 12)})
        steps = recorded.trace.report(by="step", device="cpu").rows
        kinds = [row["kind"] for row in steps if row["is_finished"]]
        assert kinds == ["prefill", "decode", "decode", "decode"]
