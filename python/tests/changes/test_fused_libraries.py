"""`chunked-loss=cce` and `=liger`: the code around the libraries, and peaks with them."""

from __future__ import annotations

import copy
import json
import sys
from importlib.util import find_spec
from types import MethodType, ModuleType

import pytest
import torch
from support.phantoms import needs_cuda_build, own_caches
from torch import nn
from torch.nn import functional as F

from floodmark import changes
from floodmark.changes.cce_head import CCE_HEAD
from floodmark.changes.change import definitions

MIB = 1 << 20
CLASSES = 20_000


def linear_cross_entropy(rows, weight, target, *, ignore_index, reduction):
    """What the library computes, in plain torch: its kernels need a GPU."""
    logits = rows.float() @ weight.float().t()
    return F.cross_entropy(logits, target, ignore_index=ignore_index, reduction=reduction)


@pytest.fixture
def cce(monkeypatch):
    """The code of the change, with a library that computes in plain torch."""
    library = ModuleType("cut_cross_entropy")
    calls = []

    def counted(*args, **options):
        calls.append(args[0].shape)
        return linear_cross_entropy(*args, **options)

    library.linear_cross_entropy = counted
    monkeypatch.setitem(sys.modules, "cut_cross_entropy", library)
    return definitions(CCE_HEAD, "cce"), calls


def model_in(dtype, **options):
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Embedding(CLASSES, 16), nn.Tanh(), nn.Linear(16, CLASSES, **options)
    ).to(dtype)


def trained(model, tokens, loss_of):
    loss = loss_of(model(tokens).float())
    loss.backward()
    return loss.detach(), {name: one.grad for name, one in model.named_parameters()}


@pytest.mark.parametrize("is_head_trained", [True, False])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_cce_gets_the_rows_of_the_head_and_its_gradients_are_used(cce, is_head_trained, reduction):
    names, calls = cce
    tokens = torch.randint(0, CLASSES, (4, 20))
    target = torch.where(torch.arange(80) % 5 == 0, -100, tokens.flatten())

    def loss_of(logits):
        return 3 * F.cross_entropy(logits.view(-1, CLASSES), target, reduction=reduction)

    model = model_in(torch.bfloat16, bias=False)
    model[2].weight.requires_grad_(is_head_trained)
    changed = copy.deepcopy(model)
    changed[2].forward = MethodType(names["deferred"], changed[2])
    loss, gradients = trained(model, tokens, loss_of)
    fused, others = trained(changed, tokens, loss_of)
    assert calls == [(80, 16)]
    torch.testing.assert_close(fused, loss, rtol=0.01, atol=0)
    assert (others["2.weight"] is not None) is is_head_trained
    for name, gradient in gradients.items():
        if gradient is not None:
            assert (others[name] - gradient).norm() <= 0.02 * gradient.norm(), name


@pytest.mark.parametrize(
    ("options", "dtype", "label_smoothing", "scale"),
    [
        ({"bias": True}, torch.bfloat16, 0.0, 1.0),
        ({"bias": False}, torch.float32, 0.0, 1.0),
        ({"bias": False}, torch.bfloat16, 0.1, 1.0),
        ({"bias": False}, torch.bfloat16, 0.0, 2.0),
    ],
)
def test_what_cce_does_not_compute_is_computed_by_the_program(
    cce, options, dtype, label_smoothing, scale
):
    names, calls = cce
    tokens = torch.randint(0, CLASSES, (4, 20))

    def loss_of(logits):
        whole = logits.view(-1, CLASSES) * scale
        return F.cross_entropy(whole, tokens.flatten(), label_smoothing=label_smoothing)

    model = model_in(dtype, **options)
    changed = copy.deepcopy(model)
    changed[2].forward = MethodType(names["deferred"], changed[2])
    loss, gradients = trained(model, tokens, loss_of)
    other, others = trained(changed, tokens, loss_of)
    assert calls == []
    assert torch.equal(loss, other)
    for name, gradient in gradients.items():
        torch.testing.assert_close(others[name], gradient)


def test_cce_is_not_used_without_a_gpu(cce):
    model = model_in(torch.bfloat16, bias=False)
    tokens = torch.randint(0, CLASSES, (4, 20))
    with changes.apply_changes(["chunked-loss=cce"]) as applied:
        F.cross_entropy(model(tokens).view(-1, CLASSES), tokens.flatten()).backward()
    assert applied.reports()[0]["reason"] == "Cut Cross Entropy needs a GPU"


#: Logits of 64 MiB in bf16; copies in fp32 and their gradient have 128 MiB each.
PROGRAM = """\
import torch
from transformers import LlamaConfig, LlamaForCausalLM

config = LlamaConfig(
    vocab_size=32_768, hidden_size=128, intermediate_size=256, num_hidden_layers=2,
    num_attention_heads=2, num_key_value_heads=2,
)
with torch.device("cuda"):
    model = LlamaForCausalLM(config).to(torch.bfloat16)
model.train()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    tokens = torch.randint(0, 32_768, (2, 512), device="cuda")
    optimizer.zero_grad()
    model(input_ids=tokens, labels=tokens, use_cache=False).loss.backward()
    optimizer.step()
"""


@needs_cuda_build
@pytest.mark.slow
@pytest.mark.parametrize(
    ("library", "package"), [("cce", "cut_cross_entropy"), ("liger", "liger_kernel")]
)
def test_kernels_of_a_library_leave_no_whole_logits(programs, library, package):
    for name in (package, "transformers", "triton"):
        if find_spec(name) is None:
            pytest.skip(f"`{name}` is not installed")

    def estimate(source, *words):
        programs.write(source, "train.py")
        words = ("estimate", "--json", "-q", "-o", "a.flood", "--force", *words, "train.py")
        done = programs.floodmark(*words, env=own_caches(programs.folder))
        return json.loads(done.stdout)

    before = estimate(PROGRAM)
    after = estimate(PROGRAM, "--with", f"chunked-loss={library}")
    (report,) = after["changes"]
    assert report["target"], report["reason"]
    assert after["unsupported"] == []
    assert before["peak_allocated"] - after["peak_allocated"] > 300 * MIB
    pasted = estimate(PROGRAM.replace("optimizer = ", report["patch"] + "optimizer = ", 1))
    peaks = [(found["peak_allocated"], found["peak_reserved"]) for found in (after, pasted)]
    assert peaks[0] == peaks[1]
