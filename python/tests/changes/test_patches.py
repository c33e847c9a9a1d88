"""The patch of a change, pasted into a program, has the peak of the change at run time."""

from __future__ import annotations

import json
import shutil
from importlib.util import find_spec

import pytest
from support.phantoms import needs_cuda_build, own_caches

pytestmark = needs_cuda_build

MIB = 1 << 20

PROGRAM = """\
import torch
from torch import nn
from torch.nn import functional as F

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(512, 2048)
        self.second = nn.Linear(2048, 512)

    def forward(self, x):
        return x + self.second(torch.tanh(self.first(x)))

model = nn.Sequential(*(Block() for _ in range(6))).cuda()
optimizer = torch.optim.AdamW(model.parameters())
x = torch.randn(4096, 512, device="cuda")
target = torch.randint(0, 512, (4096,), device="cuda")
for _ in range(3):
    logits = model(x)
    loss = F.cross_entropy(logits, target)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""

OPTIMIZER = "optimizer = torch.optim.AdamW(model.parameters())\n"
LOOP = "for _ in range(3):\n"
CALL = "    logits = model(x)\n"
LOSS = "    loss = F.cross_entropy(logits, target)\n"
STEP = "    optimizer.step()\n"


def before_optimizer(patch: str) -> str:
    return PROGRAM.replace(OPTIMIZER, patch + OPTIMIZER)


def after_optimizer(patch: str) -> str:
    return PROGRAM.replace(LOOP, patch + LOOP)


def as_optimizer(patch: str) -> str:
    """What makes the optimizer, with the parameters for `…`."""
    made = patch.replace("(…", "(model.parameters()")
    head, _, call = made.rstrip("\n").rpartition("\n")
    return PROGRAM.replace(OPTIMIZER, f"{head}\noptimizer = {call}\n")


def around_call(patch: str) -> str:
    head, _, use = patch.rpartition("with ")
    line = use.partition("\n")[0]
    called = f"    with {line}\n    {CALL}"
    return PROGRAM.replace(LOOP, head + LOOP).replace(CALL, called)


def as_loss(patch: str) -> str:
    head, _, use = patch.rpartition("loss = ")
    return PROGRAM.replace(LOOP, head + LOOP).replace(LOSS, f"    loss = {use}")


def after_step(patch: str) -> str:
    return PROGRAM.replace(STEP, f"{STEP}    {patch}")


def estimate(programs, source, *words):
    programs.write(source, "train.py")
    words = ("estimate", "--json", "-q", "-o", "a.flood", "--force", *words, "train.py")
    done = programs.floodmark(*words, env=own_caches(programs.folder))
    found = json.loads(done.stdout)
    assert found["fits"], done.stderr
    return found


def compare(programs, change, paste, *words):
    """Both peaks to the byte; the report of the change."""
    changed = estimate(programs, PROGRAM, "--with", change)
    (report,) = changed["changes"]
    assert report["target"], report["reason"]
    pasted = estimate(programs, paste(report["patch"]), *words)
    peaks = [(found["peak_allocated"], found["peak_reserved"]) for found in (changed, pasted)]
    assert peaks[0] == peaks[1]
    return report, changed["peak_allocated"]


@pytest.fixture
def unchanged(programs):
    return estimate(programs, PROGRAM)["peak_allocated"]


def test_offloaded_optimizer_states_leave_the_gpu(programs, unchanged):
    report, peak = compare(programs, "offload-optimizer-states", after_optimizer)
    assert report["target"] == "24 states of `AdamW`"
    # Two states of 48 MiB in all, three times.
    assert report["host_bytes"] == 3 * 96 * MIB
    assert unchanged - peak == 96 * MIB


def test_updates_in_the_backward_pass_leave_neither_gradients_nor_states(programs, unchanged):
    report, peak = compare(programs, "optimizer-in-backward=offload", after_optimizer)
    assert report["host_bytes"] == 3 * 96 * MIB
    # 96 MiB of states, and the gradients; the peak is then where the backward pass begins.
    assert peak < unchanged - 96 * MIB


def test_activations_are_copied_on_a_stream_of_their_own(programs, unchanged):
    report, peak = compare(programs, "offload-activations=async", around_call)
    assert (report["slows"], report["numerics"]) == (True, "same")
    assert report["host_bytes"] > 1000 * MIB
    assert peak < unchanged - 80 * MIB


def test_a_model_is_sharded_over_several_gpus(programs, unchanged):
    report, peak = compare(programs, "fsdp=4", before_optimizer, "--world", "4")
    assert report["target"] == "6 × Block and the rest"
    # Of 48 MiB of parameters and 96 MiB of states a quarter stays.
    assert peak < unchanged - 60 * MIB


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "paste"),
    [
        ("fused", as_optimizer),
        ("foreach=off", as_optimizer),
        ("free-gradients", after_step),
        ("chunked-loss=8", as_loss),
        ("checkpoint=4", before_optimizer),
        ("checkpoint=selective", before_optimizer),
        ("optimizer-in-backward", after_optimizer),
        ("offload-activations", around_call),
        ("autocast=bf16", around_call),
    ],
)
def test_other_patches_have_the_peaks_of_their_changes(programs, change, paste):
    compare(programs, change, paste)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cc") is None, reason="Triton needs a C compiler")
@pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")
def test_a_compiled_model_has_the_peak_of_its_patch(programs, unchanged):
    _, peak = compare(programs, "compile", before_optimizer)
    assert peak < unchanged


@pytest.mark.slow
@pytest.mark.skipif(
    find_spec("bitsandbytes") is None and find_spec("torchao") is None,
    reason="neither `bitsandbytes` nor `torchao` is installed",
)
def test_optimizer_states_in_8_bits_have_the_peak_of_their_patch(programs, unchanged):
    report, peak = compare(programs, "optimizer-states=8bit", as_optimizer)
    assert report["numerics"] == "changed"
    assert unchanged - 73 * MIB < peak < unchanged - 70 * MIB


def test_fake_tensors_are_not_compiled(programs):
    found = estimate(programs, PROGRAM, "--engine", "fake", "--with", "compile")
    assert found["changes"][0]["reason"].startswith("not simulated: fake tensors")
