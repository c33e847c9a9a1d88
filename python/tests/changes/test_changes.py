"""Changes of a program that runs: applied, reported, undone, and their patches run."""

from __future__ import annotations

import copy
import gc
import re
import sys
import weakref

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from floodmark import changes


class Block(nn.Module):
    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.first = nn.Linear(width, 4 * width)
        self.second = nn.Linear(4 * width, width)
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return x + self.second(torch.tanh(self.first(x)))


class Model(nn.Module):
    def __init__(self, blocks: int = 6) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(blocks))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return x


def gradients(model, **options):
    model.zero_grad()
    torch.manual_seed(1)
    model(torch.randn(4, 8, **options)).square().sum().backward()
    return [parameter.grad.clone() for parameter in model.parameters()]


def report_of(applied, at=0):
    return applied.reports()[at]


@pytest.mark.parametrize(
    "change",
    ["checkpoint=4", "checkpoint=selective", "micro-batches=2", "chunked-mlp=2", "bf16-parameters"],
)
def test_copies_of_a_model_have_their_own_weights_and_a_model_can_be_saved(change, tmp_path):
    def found(one):
        return one(torch.ones(4, 8)).detach()

    model = Model()
    with changes.apply_changes([change]) as applied:
        gradients(model)
        assert report_of(applied)["target"]
        expected, other = found(model), copy.deepcopy(model)
        torch.save(model, tmp_path / "model.pt")
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.zero_()
        torch.testing.assert_close(found(other), expected)
        assert not torch.equal(found(model), expected)
    loaded = torch.load(tmp_path / "model.pt", weights_only=False)
    torch.testing.assert_close(found(loaded), expected)


def test_checkpointing_computes_the_first_blocks_again_and_keeps_the_gradients():
    model = Model()
    expected = gradients(model)
    for block in model.blocks:
        block.calls = 0

    with changes.apply_changes(["checkpoint=4"]) as applied:
        assert all(map(torch.equal, gradients(model), expected))

    assert [block.calls for block in model.blocks] == [2, 2, 2, 2, 1, 1]
    report = report_of(applied)
    assert report["target"] == "4 of 6 × Block (blocks)"
    assert (report["blocks"], report["slows"], report["numerics"]) == (6, True, "same")
    assert all("forward" not in vars(block) for block in model.blocks)


def test_the_patch_of_checkpointing_does_the_same():
    model = Model()
    with changes.apply_changes(["checkpoint=4"]) as applied:
        expected = gradients(model)
    for block in model.blocks:
        block.calls = 0

    exec(report_of(applied)["patch"], {"torch": torch, "model": model})

    assert all(map(torch.equal, gradients(model), expected))
    assert [block.calls for block in model.blocks] == [2, 2, 2, 2, 1, 1]


def test_selective_checkpointing_keeps_the_gradients_and_its_patch_runs():
    model = Model()
    expected = gradients(model)
    with changes.apply_changes(["checkpoint=selective"]) as applied:
        assert all(map(torch.equal, gradients(model), expected))
    assert report_of(applied)["target"] == "6 × Block (blocks)"

    exec(report_of(applied)["patch"], {"torch": torch, "model": model})

    assert all(map(torch.equal, gradients(model), expected))


def test_a_model_of_transformers_is_checkpointed_by_its_own_method():
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(
        n_layer=5, n_embd=16, n_head=2, vocab_size=32, n_positions=8, use_cache=True
    )
    torch.manual_seed(0)
    model = transformers.GPT2LMHeadModel(config)
    ids = torch.arange(8).reshape(1, 8)

    with changes.apply_changes(["checkpoint=3"]) as applied:
        model(ids, labels=ids).loss.backward()

    report = report_of(applied)
    assert report["target"] == "3 of 5 × GPT2Block (transformer.h)"
    assert "gradient_checkpointing_enable" in report["patch"]
    assert not model.is_gradient_checkpointing
    exec(report["patch"], {"torch": torch, "model": model})
    chosen = [block.gradient_checkpointing for block in model.transformer.h]
    assert chosen == [True, True, True, False, False]
    model(ids, labels=ids).loss.backward()


def test_a_model_without_blocks_has_nothing_to_checkpoint():
    with changes.apply_changes(["checkpoint=all"]) as applied:
        model = nn.Linear(8, 8)
        model(torch.randn(2, 8)).sum().backward()
    assert report_of(applied)["target"] == ""
    assert report_of(applied)["reason"] == "`Linear` has no repeated blocks"


def test_sequences_are_blocks_where_no_other_class_repeats():
    def layers():
        return torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU())

    model = torch.nn.Sequential(*(layers() for _ in range(4)))
    with changes.apply_changes(["checkpoint=all"]) as applied:
        model(torch.randn(2, 8)).sum().backward()
    assert report_of(applied)["target"] == "4 × Sequential"


def test_experts_are_part_of_their_layers():
    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.experts = nn.ModuleList(Block() for _ in range(8))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return sum(expert(x) for expert in self.experts)

    with changes.apply_changes(["checkpoint=all"]) as applied:
        model = nn.Sequential(*(Layer() for _ in range(4)))
        model(torch.randn(2, 8)).sum().backward()
    assert report_of(applied)["target"] == "4 × Layer"


def test_changes_of_training_leave_inference_alone():
    model = Model()
    texts = ["checkpoint=all", "offload-activations"]
    with changes.apply_changes(texts) as applied, torch.no_grad():
        model(torch.randn(4, 8))
    assert [report["target"] for report in applied.reports()] == ["", ""]
    assert all(one["reason"].startswith("no module was called that") for one in applied.reports())


def test_a_model_that_the_program_deletes_is_not_kept():
    with changes.apply_changes(["bf16-parameters", "checkpoint=all"]):
        for _ in range(2):
            model = nn.Sequential(nn.Linear(8, 8))
            with torch.no_grad():
                model(torch.randn(4, 8))
            weight = weakref.ref(model[0].weight)
            del model
            gc.collect()
            assert weight() is None


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_a_model_that_is_not_trained_becomes_bf16_and_its_patch_does_the_same(mode):
    images = {"x": [torch.randn(4, 8)]}

    class Nested(Model):
        def forward(self, inputs):
            return super().forward(inputs["x"][0])

    torch.manual_seed(0)
    model, pasted = Nested().eval(), Nested().eval()
    pasted.load_state_dict(model.state_dict())
    with changes.apply_changes(["bf16-parameters"]) as applied, mode():
        found = model(images)
    report = report_of(applied)
    assert "# after the model is made\n" in report["patch"]
    assert not model._forward_pre_hooks
    # A model may be trained after its evaluation.
    model(images).sum().backward()
    exec(report["patch"], {"torch": torch, "model": pasted})
    with mode():
        assert torch.equal(pasted(images), found)
    assert found.dtype == torch.bfloat16


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_chunked_loss_has_the_value_and_the_gradient_of_cross_entropy(
    reduction, smoothing, monkeypatch
):
    torch.manual_seed(0)
    logits = torch.randn(70, 20_000, requires_grad=True)
    target = torch.randint(0, 20_000, (70,))
    target[::7] = -100
    options = {"reduction": reduction, "label_smoothing": smoothing}
    expected = F.cross_entropy(logits, target, **options)
    (gradient,) = torch.autograd.grad(3 * expected, logits)

    with changes.apply_changes(["chunked-loss=8"]) as applied:
        loss = F.cross_entropy(logits, target, **options)
        (chunked,) = torch.autograd.grad(3 * loss, logits)

    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(chunked, gradient)
    report = report_of(applied)
    assert report["target"] == "70 × 20000 logits in float32"
    assert F.cross_entropy.__module__ == "torch.nn.functional"
    monkeypatch.setattr(F, "cross_entropy", F.cross_entropy)
    exec(report["patch"], {"torch": torch})
    pasted = F.cross_entropy(logits, target, **options)
    assert pasted.grad_fn.name() == "ChunkedCrossEntropyBackward"
    torch.testing.assert_close(pasted, expected)


def test_a_chunked_loss_of_bf16_logits_is_in_bf16():
    logits = torch.randn(70, 20_000, requires_grad=True, dtype=torch.bfloat16)
    target = torch.randint(0, 20_000, (70,))
    with changes.apply_changes(["chunked-loss=8"]):
        loss = F.cross_entropy(logits, target)
        with torch.autocast("cpu"):
            under_autocast = F.cross_entropy(logits, target)
    assert (loss.dtype, under_autocast.dtype) == (torch.bfloat16, torch.float32)


def test_a_small_loss_is_left_alone():
    with changes.apply_changes(["chunked-loss=8"]) as applied:
        F.cross_entropy(torch.randn(4, 10, requires_grad=True), torch.zeros(4, dtype=torch.long))
    assert report_of(applied)["reason"].startswith("no `cross_entropy` of a million")


def train(
    model,
    steps=3,
    *,
    accumulate=1,
    clip=False,
    scales=False,
    closure=False,
    zeroes=True,
    kind=torch.optim.AdamW,
    **options,
):
    torch.manual_seed(2)
    optimizer = kind(model.parameters(), lr=0.01, **options)
    scaler = torch.amp.GradScaler("cpu", enabled=scales)
    for _ in range(steps):
        if closure:
            optimizer.zero_grad()
            optimizer.step(lambda: loss_of(model, scaler))
            continue
        for _ in range(accumulate):
            loss_of(model, scaler)
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        if zeroes:
            optimizer.zero_grad()
    return optimizer


def loss_of(model, scaler):
    loss = model(torch.randn(4, 8)).square().sum()
    scaler.scale(loss).backward()
    return loss


def trained(texts, **options):
    torch.manual_seed(0)
    model = Model()
    with changes.apply_changes(texts) as applied:
        optimizer = train(model, **options)
    return model, optimizer, applied.reports()


@pytest.mark.parametrize("change", ["optimizer-in-backward", "optimizer-in-backward=offload"])
@pytest.mark.parametrize("kind", [torch.optim.AdamW, torch.optim.SGD])
def test_an_optimizer_in_the_backward_pass_trains_the_same(kind, change):
    expected, _, _ = trained([], kind=kind)
    model, optimizer, (report,) = trained([change], kind=kind)
    assert report["target"] == f"`{kind.__name__}`"
    assert all(map(torch.equal, model.parameters(), expected.parameters()))
    if kind is torch.optim.AdamW:
        assert len(optimizer.state) == len(list(model.parameters()))


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"accumulate": 2}, "accumulates gradients"),
        ({"clip": True}, "clips gradients"),
        ({"scales": True}, "uses a `GradScaler`"),
        ({"closure": True}, "computes the loss"),
    ],
)
def test_what_speaks_against_updates_in_the_backward_pass_is_seen_before_the_first(options, reason):
    expected, _, _ = trained([], **options)
    model, _, (report,) = trained(["optimizer-in-backward"], **options)
    assert report["target"] == ""
    assert reason in report["reason"]
    assert all(map(torch.equal, model.parameters(), expected.parameters()))


def test_updates_that_were_made_too_early_are_said_to_be_wrong(capfd):
    _, _, (report,) = trained(["optimizer-in-backward=offload"], clip=True)
    assert report["target"] == ""
    said = "clips gradients; a part of this step was made before that was seen"
    assert said in report["reason"]
    assert said in capfd.readouterr().err


def test_gradients_that_are_never_set_to_zero_are_not_freed_in_the_backward_pass():
    _, _, (report,) = trained(["optimizer-in-backward"], zeroes=False)
    assert report["reason"] == "the program never sets gradients to zero"


@pytest.mark.parametrize("kind", [torch.optim.AdamW, torch.optim.SGD])
def test_optimizer_states_are_updated_one_by_one_with_the_same_results(kind):
    options = {"kind": kind, "clip": True, "zeroes": True}
    expected, _, _ = trained([], **options)
    model, optimizer, (report,) = trained(["offload-optimizer-states"], **options)
    assert all(map(torch.equal, model.parameters(), expected.parameters()))
    assert len(optimizer.param_groups[0]["params"]) == len(list(model.parameters()))
    # On the CPU there is nothing to copy.
    assert report["reason"] == f"`{kind.__name__}` has no large states on the GPU"


def test_gradients_are_there_after_a_step_with_offloaded_states():
    model = Model()
    with changes.apply_changes(["offload-optimizer-states"]):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        expected = gradients(model)
        optimizer.step()
        found = [parameter.grad for parameter in model.parameters()]
    assert all(map(torch.equal, found, expected))


def test_offloaded_states_and_freed_gradients_go_together():
    texts = ["free-gradients", "offload-optimizer-states"]
    expected, _, _ = trained([])
    model, _, reports = trained(texts)
    assert all(map(torch.equal, model.parameters(), expected.parameters()))
    assert {report["change"] for report in reports} == set(texts)
    assert all(parameter.grad is None for parameter in model.parameters())


def test_a_step_with_a_closure_keeps_its_states():
    expected, _, _ = trained([], closure=True)
    model, _, (report,) = trained(["offload-optimizer-states"], closure=True)
    assert "computes the loss" in report["reason"]
    assert all(map(torch.equal, model.parameters(), expected.parameters()))


def test_a_model_is_sharded_by_the_ranks_of_a_world_alone(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    _, _, (report,) = trained(["fsdp=2"])
    assert report["target"] == ""
    assert "`torchrun --nproc-per-node 2`" in report["reason"]


def test_states_in_8_bits_need_a_library(monkeypatch):
    for library in ("bitsandbytes", "torchao"):
        monkeypatch.setitem(sys.modules, library, None)
        monkeypatch.setitem(sys.modules, f"{library}.optim", None)
    _, optimizer, (report,) = trained(["optimizer-states=8bit"])
    assert type(optimizer) is torch.optim.AdamW
    assert "cannot be imported here" in report["reason"] or "installed" in report["reason"]
    _, _, (report,) = trained(["optimizer-states=8bit"], amsgrad=True)
    assert report["reason"] == "`amsgrad` of `AdamW` has no counterpart in 8-bit optimizers"


def test_foreach_is_turned_off_where_the_program_did_not_choose():
    expected, _, _ = trained([])
    model, optimizer, (report,) = trained(["foreach=off"])
    assert optimizer.param_groups[0]["foreach"] is False
    assert report["target"] == "`AdamW`"
    assert "# or `AdamW(…, foreach=False)` in test_changes.py:" in report["patch"]
    assert "for group in optimizer.param_groups:\n" in report["patch"]
    for one, other in zip(model.parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(one, other)
    _, optimizer, (report,) = trained(["foreach=off"], fused=True)
    assert report["target"] == ""
    assert "fused already" in report["reason"]


def test_an_optimizer_is_fused():
    expected, _, _ = trained([])
    model, optimizer, (report,) = trained(["fused"])
    assert optimizer.param_groups[0]["fused"] is True
    assert report["numerics"] == "rounding"
    for one, other in zip(model.parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(one, other)


def test_parameters_become_bf16_until_the_end_and_the_optimizer_still_has_them():
    model = Model()
    model.register_buffer("scale", torch.ones(8))
    model.register_buffer("exact", torch.ones(8, dtype=torch.float64))
    before = [one.dtype for one in (*model.parameters(), *model.buffers())]
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    with changes.apply_changes(["bf16-parameters"]) as applied:
        model(torch.randn(4, 8)).float().sum().backward()
        optimizer.step()
        kinds = {one.dtype for one in (*model.parameters(), *model.buffers())}
        assert kinds == {torch.bfloat16}
        values = [one.detach().clone() for one in model.parameters()]
    assert [one.dtype for one in (*model.parameters(), *model.buffers())] == before
    assert all(map(torch.equal, model.parameters(), (one.float() for one in values)))
    assert optimizer.param_groups[0]["params"][0] is model.blocks[0].first.weight
    assert report_of(applied)["numerics"] == "changed"
    # The training goes on with the types of the program.
    model(torch.randn(4, 8)).sum().backward()
    optimizer.step()
    states = optimizer.state[model.blocks[0].first.weight]
    assert {one.dtype for one in states.values()} == {torch.float32}


def test_states_that_were_loaded_become_bf16_with_their_parameters():
    def trained(model, optimizer):
        model(torch.ones(4, 8)).float().sum().backward()
        optimizer.step()
        return list(model.parameters())

    first, second = Model(), Model()
    with changes.apply_changes(["bf16-parameters"]):
        optimizer = torch.optim.AdamW(first.parameters(), lr=0.1)
        trained(first, optimizer)
        resumed = torch.optim.AdamW(second.parameters(), lr=0.1)
        second.load_state_dict(first.state_dict())
        resumed.load_state_dict(copy.deepcopy(optimizer.state_dict()))
        optimizer.zero_grad()
        assert all(map(torch.equal, trained(first, optimizer), trained(second, resumed)))


def test_allocator_settings_are_added_to_those_of_the_user(monkeypatch):
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:64")
    with changes.apply_changes(["allocator=expandable_segments:True"]) as applied:
        import os

        value = os.environ["PYTORCH_CUDA_ALLOC_CONF"]
    assert value == "max_split_size_mb:64,expandable_segments:True"
    assert f'os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "{value}"\n' in report_of(applied)["patch"]
    assert os.environ["PYTORCH_CUDA_ALLOC_CONF"] == "max_split_size_mb:64"


def test_a_change_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match="there is no change `x`") as refusal:
        changes.parse("x")
    # Those that can be written are those that can be applied.
    known = set(re.findall("`([^`]+)`", str(refusal.value))) - {"x"}
    assert known == {kind.name for kind in changes._CLASSES}
    assert changes.parse("checkpoint").text == "checkpoint=all"
    for wrong in (
        "checkpoint=many",
        "chunked-loss=0",
        "autocast=fp8",
        "allocator=x",
        "fsdp=1",
        "offload-activations=later",
        "optimizer-states=4bit",
    ):
        with pytest.raises(ValueError, match="takes"):
            changes.parse(wrong)


def test_all_is_undone():
    before = (nn.Module.__call__, F.cross_entropy, torch.optim.AdamW.__init__, nn.Module.zero_grad)
    with changes.apply_changes(["checkpoint=all", "chunked-loss=8", "fused", "free-gradients"]):
        assert nn.Module.__call__ is not before[0]
    after = (nn.Module.__call__, F.cross_entropy, torch.optim.AdamW.__init__, nn.Module.zero_grad)
    assert after == before
