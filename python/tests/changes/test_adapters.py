"""`adapters=lora:4` and the others: what is trained beside frozen weights, and what is refused."""

from __future__ import annotations

import io
from importlib.util import find_spec

import pytest
import torch
from torch import nn

from floodmark import changes

KINDS = ["lora", "dora"]


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(16, 64)
        self.second = nn.Linear(64, 16, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.second(torch.tanh(self.first(x)))


def model_of_blocks(block=Block) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.Sequential(*(block() for _ in range(4))))


def train(model, optimizer, steps=3):
    torch.manual_seed(1)
    losses = []
    for _ in range(steps):
        loss = model(torch.randn(4, 8)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def adapted(kind, model, *, make=None):
    """An optimizer of a model with adapters, losses of a training, the report; not undone."""
    make = make or (lambda: torch.optim.AdamW(model.parameters(), lr=0.01))
    applied = changes.AppliedChanges([f"adapters={kind}:4"])
    torch.manual_seed(5)
    return make(), applied


def merged(linear):
    """What the weight of a `Linear` and its adapter amount to, by the papers."""
    weight = linear.weight + 2 * linear.lora_b @ linear.lora_a
    if hasattr(linear, "magnitude"):
        weight = linear.magnitude[:, None] * weight / weight.norm(dim=1, keepdim=True)
    return weight


@pytest.mark.parametrize("kind", KINDS)
def test_adapters_begin_as_nothing_and_are_what_is_trained(kind):
    model, plain = model_of_blocks(), model_of_blocks()
    expected = train(plain, torch.optim.AdamW(plain.parameters(), lr=0.01))
    before = {name: value.clone() for name, value in model.state_dict().items()}

    optimizer, applied = adapted(kind, model)
    losses = train(model, optimizer)

    assert losses[0] == expected[0]
    assert losses[-1] < losses[0]
    state = model.state_dict()
    assert all(torch.equal(state[name], value) for name, value in before.items())
    trained = {name for name, one in model.named_parameters() if one.requires_grad}
    names = {"lora_a", "lora_b"} | ({"magnitude"} if kind == "dora" else set())
    assert trained == set(state) - set(before)
    assert {name.rpartition(".")[2] for name in trained} == names
    assert len(optimizer.param_groups[0]["params"]) == len(trained) == 8 * len(names)
    # The same model with the sums as its weights.
    again = model_of_blocks()
    with torch.no_grad():
        for one, other in zip(again[1].modules(), model[1].modules(), strict=True):
            if isinstance(one, nn.Linear):
                one.weight.copy_(merged(other))
    x = torch.randn(5, 8)
    torch.testing.assert_close(model(x), again(x))
    (report,) = applied.reports()
    assert report["target"] == "8 × Linear in 4 × Block (1)"
    assert (report["numerics"], report["slows"]) == ("training", kind == "dora")
    applied.undo()


@pytest.mark.parametrize("kind", KINDS)
def test_the_patch_has_the_same_losses(kind):
    model, again = model_of_blocks(), model_of_blocks()
    optimizer, applied = adapted(kind, model)
    expected = train(model, optimizer)
    (report,) = applied.reports()
    applied.undo()

    torch.manual_seed(5)
    exec(report["patch"], {"torch": torch, "model": again})

    assert train(again, torch.optim.AdamW(again.parameters(), lr=0.01)) == expected


def test_all_is_undone():
    model = model_of_blocks()
    before = list(model.state_dict())
    optimizer, applied = adapted("dora", model)
    train(model, optimizer)
    x, saved = torch.randn(4, 8), io.BytesIO()
    expected = model(x)
    torch.save(model, saved)
    saved.seek(0)
    applied.undo()
    assert torch.equal(torch.load(saved, weights_only=False)(x), expected)
    assert optimizer.state_dict()["state"] == {}
    assert list(model.state_dict()) == before
    assert all(one.requires_grad for one in model.parameters())
    pairs = zip(optimizer.param_groups[0]["params"], model.parameters(), strict=True)
    assert all(one is other for one, other in pairs)
    assert train(model, optimizer)[-1] > 0
    assert {len(one._forward_hooks) for one in model.modules()} == {0}


def test_groups_of_the_program_have_the_adapters_of_their_weights():
    model = model_of_blocks()

    def make():
        named = [(name, one) for name, one in model.named_parameters() if one.ndim > 1]
        others = [(name, one) for name, one in model.named_parameters() if one.ndim == 1]
        groups = [{"params": iter(named), "weight_decay": 0.3}, {"params": others}]
        return torch.optim.AdamW(groups, lr=0.01)

    optimizer, applied = adapted("lora", model, make=make)
    decayed, others = optimizer.param_groups
    assert (len(decayed["params"]), decayed["param_names"][1]) == (16, "1.0.first.weight.1")
    # Frozen, but torch wants parameters.
    assert not any(one.requires_grad for one in others["params"])
    assert decayed["weight_decay"] == 0.3
    torch.optim.lr_scheduler.LambdaLR(optimizer, [lambda _: 1.0, lambda _: 0.5])
    losses = train(model, optimizer)
    assert losses[-1] < losses[0]
    applied.undo()


def test_a_second_optimizer_gets_adapters_too():
    model = model_of_blocks()

    def make():
        # The first one has nothing to train.
        first = torch.optim.SGD(model[0].parameters(), lr=0.1)
        return first, torch.optim.AdamW(model.parameters(), lr=0.01)

    (first, second), applied = adapted("lora", model, make=make)
    assert [len(one.param_groups[0]["params"]) for one in (first, second)] == [2, 16]
    assert train(model, first)[-1] == train(model, first)[-1]
    applied.undo()


def test_transposed_weights_of_transformers_get_adapters():
    conv1d = pytest.importorskip("transformers.pytorch_utils").Conv1D

    class Transposed(Block):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = conv1d(64, 16), conv1d(16, 64)

    for kind in KINDS:
        model = model_of_blocks(Transposed)
        x = torch.randn(4, 8)
        expected = model(x)
        optimizer, applied = adapted(kind, model)
        assert torch.equal(model(x), expected)
        losses = train(model, optimizer)
        assert losses[-1] < losses[0]
        assert applied.reports()[0]["target"] == "8 × Conv1D in 4 × Transposed (1)"
        applied.undo()


def test_inference_of_an_encoder_uses_the_adapters():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
    model = nn.TransformerEncoder(layer, 4)
    x = torch.randn(2, 3, 16)
    optimizer, applied = adapted("lora", model)
    for _ in range(3):
        model(x).square().mean().backward()
        optimizer.step()
    expected = model(x)
    model.eval()
    with torch.no_grad():
        torch.testing.assert_close(model(x), expected)
    # The attention does not call its `Linear`.
    assert applied.reports()[0]["target"] == "8 × Linear in 4 × TransformerEncoderLayer (layers)"
    applied.undo()


class Checkpointed(nn.Module):
    def __init__(self, *, is_reentrant: bool) -> None:
        super().__init__()
        self.inner = model_of_blocks()
        self.is_reentrant = is_reentrant

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.inner[0](x)
        for block in self.inner[1]:
            x = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=self.is_reentrant)
        return x


def test_checkpoints_that_need_an_input_with_a_gradient_are_left_with_all_weights():
    before = torch.utils.checkpoint.CheckpointFunction.apply
    model = Checkpointed(is_reentrant=False)
    optimizer, applied = adapted("lora", model)
    losses = train(model, optimizer)
    assert losses[-1] < losses[0]
    assert applied.reports()[0]["target"]
    applied.undo()
    for kind in KINDS:
        model = Checkpointed(is_reentrant=True)
        optimizer, applied = adapted(kind, model)
        losses = train(model, optimizer, steps=5)
        assert losses[-1] < losses[0]
        (report,) = applied.reports()
        applied.undo()
        assert report["target"] == ""
        assert report["reason"].startswith("a checkpoint with `use_reentrant=True` needs an input")
        assert all(one.requires_grad for one in model.parameters())
    assert torch.utils.checkpoint.CheckpointFunction.apply == before


def frozen(model):
    model[1].requires_grad_(False)
    return model


class Convolution(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv1d(16, 16, 1)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: nn.Linear(8, 8), "`Linear` has no repeated blocks"),
        (lambda: frozen(model_of_blocks()), "most parameters of `Block` are frozen already"),
        (lambda: model_of_blocks(Convolution), "`Convolution` has no `Linear`"),
    ],
)
def test_other_models_are_left_as_they_are(make, reason):
    model = make()
    before = [one.requires_grad for one in model.parameters()]
    optimizer, applied = adapted("lora", model)
    (report,) = applied.reports()
    applied.undo()
    assert (report["target"], report["reason"]) == ("", reason)
    assert [one.requires_grad for one in model.parameters()] == before
    assert len(optimizer.param_groups[0]["params"]) == len(before)


def test_tensors_without_a_model_and_models_without_an_optimizer_have_no_adapters():
    weight = torch.zeros(2, 2, requires_grad=True)
    with changes.apply_changes(["adapters=lora"]) as applied:
        assert applied.reports()[0]["reason"] == "the program makes no optimizer"
        torch.optim.SGD([weight], lr=0.1)
    assert applied.reports()[0]["reason"] == "no module has the parameters of the optimizer"


def test_a_model_in_ddp_is_left_as_it_is(tmp_path):
    store = f"file://{tmp_path}/store"
    torch.distributed.init_process_group("gloo", init_method=store, rank=0, world_size=1)
    try:
        model = nn.parallel.DistributedDataParallel(model_of_blocks())
        _, applied = adapted("lora", model)
        assert applied.reports()[0]["reason"] == "the model is distributed already"
        applied.undo()
    finally:
        torch.distributed.destroy_process_group()


@pytest.mark.skipif(find_spec("bitsandbytes") is not None, reason="`bitsandbytes` is installed")
def test_weights_in_4_bits_need_a_library():
    model = model_of_blocks()
    _, applied = adapted("qlora", model)
    needs = "weights in 4 bits need `bitsandbytes`, which is not installed"
    assert applied.reports()[0]["reason"] == needs
    assert all(one.requires_grad for one in model.parameters())
    applied.undo()


@pytest.mark.skipif(find_spec("bitsandbytes") is None, reason="`bitsandbytes` is not installed")
def test_weights_beside_adapters_are_in_4_bits():
    model, again = model_of_blocks(), model_of_blocks()
    whole = list(model[1].parameters())
    shapes = [one.shape for one in model.parameters()]
    x = torch.randn(4, 8)
    expected = model(x)
    optimizer, applied = adapted("qlora", model)
    torch.testing.assert_close(model(x), expected, atol=0.2, rtol=0.2)
    losses = train(model, optimizer)
    assert losses[-1] < losses[0]
    # A list of the program does not keep them.
    assert sum(one.numel() == 0 for one in whole) == 8
    torch.manual_seed(5)
    exec(applied.reports()[0]["patch"], {"torch": torch, "model": again})
    assert train(again, torch.optim.AdamW(again.parameters(), lr=0.01)) == losses
    applied.undo()
    # What 4 bits have left of the weights, and nothing else, is trained again.
    assert [one.shape for one in model.parameters()] == shapes
    assert all(one is other for one, other in zip(model[1].parameters(), whole, strict=True))
    assert all(one.requires_grad for one in model.parameters())
    torch.testing.assert_close(model(x), expected, atol=0.2, rtol=0.2)
    before = [one.detach().clone() for one in model.parameters()]
    train(model, optimizer)
    assert not any(map(torch.equal, before, model.parameters()))
