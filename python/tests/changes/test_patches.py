"""The patch of a change, pasted into a program, has the peak of the change at run time."""

from __future__ import annotations

import shutil
from importlib.util import find_spec

import pytest
from support.phantoms import estimate, needs_cuda_build

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


def before_optimizer(patch: str) -> str:
    return PROGRAM.replace(OPTIMIZER, patch + OPTIMIZER)


def after_optimizer(patch: str) -> str:
    return PROGRAM.replace(LOOP, patch + LOOP)


def at_the_top(patch: str) -> str:
    return patch + PROGRAM


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


def test_gradients_of_zeros_are_freed(programs):
    zeroes = PROGRAM.replace("zero_grad()", "zero_grad(set_to_none=False)")
    before = estimate(programs, zeroes)["peak_allocated"]
    changed = estimate(programs, zeroes, "--with", "free-gradients")
    (report,) = changed["changes"]
    assert (report["target"], report["numerics"]) == ("`AdamW`", "same")
    pasted = estimate(programs, zeroes.replace(LOOP, report["patch"] + LOOP))
    peaks = [(found["peak_allocated"], found["peak_reserved"]) for found in (changed, pasted)]
    assert peaks[0] == peaks[1]
    # 48 MiB of zeros, through the forward pass and the first block of the backward pass.
    assert before - peaks[0][0] > 30 * MIB


def test_updates_in_the_backward_pass_leave_neither_gradients_nor_states(programs, unchanged):
    report, peak = compare(programs, "optimizer-in-backward=offload", after_optimizer)
    assert report["host_bytes"] == 3 * 96 * MIB
    # 96 MiB of states, and the gradients; the peak is then where the backward pass begins.
    assert peak < unchanged - 96 * MIB


def test_activations_are_copied_on_a_stream_of_their_own(programs, unchanged):
    report, peak = compare(programs, "offload-activations=async", before_optimizer)
    assert (report["slows"], report["numerics"]) == (True, "same")
    assert report["host_bytes"] > 1000 * MIB
    assert peak < unchanged - 80 * MIB


def test_inner_activations_of_an_mlp_exist_for_one_chunk(programs, unchanged):
    report, peak = compare(programs, "chunked-mlp=4", before_optimizer)
    assert report["target"] == "6 × Block"
    # Two tensors of 32 MiB for each block; the input of a block and two for a chunk remain.
    assert peak < unchanged - 200 * MIB


def test_one_part_of_a_batch_has_activations(programs, unchanged):
    report, peak = compare(programs, "micro-batches=4", before_optimizer)
    assert report["target"] == "`Sequential`, batches of 4096 in 4 parts"
    # Three quarters of the activations of 6 blocks, of which each has 40 MiB.
    assert peak < unchanged - 170 * MIB


#: One of 97 MiB, of which a batch uses few rows.
WITH_EMBEDDING = """\
import torch
from torch import nn

model = nn.Sequential(nn.Embedding(200_000, 128), nn.Tanh(), nn.Linear(128, 100)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
tokens = torch.randint(0, 200_000, (4, 512), device="cuda")
for _ in range(3):
    model(tokens).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.parametrize("change", ["embeddings=sparse", "embeddings=frozen"])
def test_an_embedding_has_no_gradient_of_its_size(programs, change):
    before = estimate(programs, WITH_EMBEDDING)["peak_allocated"]
    changed = estimate(programs, WITH_EMBEDDING, "--with", change)
    (report,) = changed["changes"]
    assert report["target"] == "1 × `Embedding`"
    marker = "optimizer = "
    pasted = estimate(programs, WITH_EMBEDDING.replace(marker, report["patch"] + marker, 1))
    assert changed["peak_allocated"] == pasted["peak_allocated"] < before - 90 * MIB


#: The forward pass reads a value, and chooses by it what is computed.
READS = """import torch
from torch.utils.checkpoint import checkpoint

def compute(x):
    positions = torch.arange(4, device="cuda")
    if ((positions.diff() != 1).cumsum(-1) == 0).all():
        return x.exp().sin().cos()
    return x.tanh()

x = torch.randn(1 << 20, device="cuda", requires_grad=True)
checkpoint(compute, x, use_reentrant=False).sum().backward()
"""


def test_what_is_computed_again_reads_the_same_values(programs):
    assert estimate(programs, READS)["ended"] == "done"


def test_a_model_is_sharded_over_several_gpus(programs, unchanged):
    report, peak = compare(programs, "fsdp=4", before_optimizer, "--world", "4")
    assert report["target"] == "6 × Block and the rest"
    # Of 48 MiB of parameters and 96 MiB of states a quarter stays.
    assert peak < unchanged - 60 * MIB


#: Logits of 250 MiB, in fp32 alone.
WITH_HEAD = """\
import torch
from torch import nn
from torch.nn import functional as F

model = nn.Sequential(nn.Embedding(16_000, 256), nn.Tanh(), nn.Linear(256, 16_000)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
tokens = torch.randint(0, 16_000, (4, 1024), device="cuda")
for _ in range(3):
    logits = model(tokens)
    loss = F.cross_entropy(logits.view(-1, 16_000), tokens.view(-1))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def test_neither_logits_nor_their_gradient_are_ever_whole(programs):
    before = estimate(programs, WITH_HEAD)["peak_allocated"]
    changed = estimate(programs, WITH_HEAD, "--with", "chunked-loss=head")
    (report,) = changed["changes"]
    assert report["target"] == "4096 × 16000 logits in float32"
    marker = "optimizer = "
    pasted = estimate(programs, WITH_HEAD.replace(marker, report["patch"] + marker, 1))
    peaks = [(found["peak_allocated"], found["peak_reserved"]) for found in (changed, pasted)]
    assert peaks[0] == peaks[1]
    # Logits, log-probabilities, a gradient; now an eighth of each, and gradients of the model.
    assert before > 750 * MIB
    assert peaks[0][0] < 160 * MIB


def test_adafactor_keeps_a_row_and_a_column_of_each_matrix(programs, unchanged):
    report, peak = compare(programs, "optimizer=adafactor", before_optimizer)
    assert (report["target"], report["numerics"]) == ("`Adafactor` in place of `AdamW`", "training")
    # Nothing is left of two states of 48 MiB.
    assert unchanged - peak > 90 * MIB


def test_muon_keeps_one_state_of_each_matrix(programs, unchanged):
    report, peak = compare(programs, "optimizer=muon", before_optimizer)
    assert report["target"] == "`Muon` for 12 weights of 6 × Block, `AdamW` for the rest"
    # One state of 48 MiB in place of two.
    assert unchanged - peak > 45 * MIB


def test_adapters_leave_neither_gradients_nor_states_of_weights(programs, unchanged):
    report, peak = compare(programs, "adapters=lora:8", before_optimizer)
    assert report["target"] == "12 × Linear in 6 × Block"
    # Two states of 48 MiB; at the peak, the first gradients are there.
    assert unchanged - peak > 100 * MIB


@pytest.mark.slow
@pytest.mark.skipif(find_spec("bitsandbytes") is None, reason="`bitsandbytes` is not installed")
def test_weights_beside_adapters_are_in_4_bits(programs, unchanged):
    report, peak = compare(programs, "adapters=qlora:8", before_optimizer)
    assert report["target"] == "12 × Linear in 6 × Block"
    # Of weights of 48 MiB an eighth is left, too.
    assert unchanged - peak > (100 + 38) * MIB


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "paste"),
    [
        ("fused", after_optimizer),
        ("foreach=off", after_optimizer),
        ("free-gradients", after_optimizer),
        ("chunked-loss=8", before_optimizer),
        ("checkpoint=4", before_optimizer),
        ("checkpoint=selective", before_optimizer),
        ("optimizer-in-backward", after_optimizer),
        ("offload-activations", before_optimizer),
        ("autocast=bf16", before_optimizer),
        ("adapters=dora:8", before_optimizer),
        ("bf16-parameters", before_optimizer),
        ("allocator=expandable_segments:True", at_the_top),
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
    report, peak = compare(programs, "optimizer-states=8bit", before_optimizer)
    assert report["numerics"] == "changed"
    assert unchanged - 73 * MIB < peak < unchanged - 70 * MIB


@pytest.mark.slow
@pytest.mark.skipif(find_spec("bitsandbytes") is None, reason="`bitsandbytes` is not installed")
def test_paged_states_are_no_memory_of_torch(programs, unchanged):
    report, peak = compare(programs, "optimizer-states=paged-8bit", before_optimizer)
    assert (report["target"], report["slows"]) == ("`AdamW`, by bitsandbytes", True)
    # Of two states of 48 MiB only the scales of their blocks are left.
    assert unchanged - 96 * MIB < peak < unchanged - 90 * MIB


def test_fake_tensors_are_not_compiled(programs):
    found = estimate(programs, PROGRAM, "--engine", "fake", "--with", "compile")
    assert found["changes"][0]["reason"].startswith("not simulated: fake tensors")


#: The trainer makes the optimizer and computes the loss; the program does not import torch.
WITH_TRAINER = """\
import sys
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

tokens = list(range(64))
data = [{"input_ids": tokens, "labels": tokens}] * 12
config = GPT2Config(vocab_size=5000, n_positions=64, n_embd=128, n_layer=4, n_head=4)
arguments = TrainingArguments(
    "out", per_device_train_batch_size=4, max_steps=3, report_to=[], save_strategy="no",
    optim="adamw_torch", dataloader_pin_memory=False, disable_tqdm=True,
)
mine = Trainer(GPT2LMHeadModel(config), arguments, train_dataset=data)
mine.train()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        "fused",
        "free-gradients",
        "chunked-loss=8",
        "chunked-loss=head",
        "chunked-mlp=4",
        "micro-batches=2",
        "embeddings=frozen",
        "checkpoint=2",
        "offload-optimizer-states",
        "autocast=bf16",
        "bf16-parameters",
        "optimizer=adafactor",
        "optimizer=muon",
        "adapters=lora:8",
    ],
)
def test_patches_for_a_trainer_go_before_its_training(programs, change):
    programs.environment |= {"HF_HUB_OFFLINE": "1"}
    changed = estimate(programs, WITH_TRAINER, "--with", change)
    (report,) = changed["changes"]
    assert report["target"], report["reason"]
    patch = report["patch"]
    pasted = estimate(programs, WITH_TRAINER.replace("mine.train()", patch + "mine.train()"))
    peaks = [(found["peak_allocated"], found["peak_reserved"]) for found in (changed, pasted)]
    assert peaks[0] == peaks[1]


def test_a_patch_has_the_names_of_the_program(programs):
    source = PROGRAM.replace("optimizer", "adam").replace("model", "network")
    found = estimate(programs, source, "--with", "fused", "--with", "checkpoint=4")
    fused, checkpointed = (one["patch"] for one in found["changes"])
    assert "for group in adam.param_groups:" in fused
    assert "in list(network)[:4]:" in checkpointed
    assert "import torch\n" not in fused + checkpointed
