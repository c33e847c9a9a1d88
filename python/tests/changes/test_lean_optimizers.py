"""`optimizer=adafactor`, `optimizer=muon`: they train as these do, and stay the same object."""

from __future__ import annotations

import copy
import sys

import pytest
import torch
from torch import nn

from floodmark import changes

needs_muon = pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="torch 2.9 has Muon")

KINDS = [torch.optim.Adam, torch.optim.AdamW]


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(16, 64)
        self.second = nn.Linear(64, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.second(torch.tanh(self.first(x)))


def model_of_blocks() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.Sequential(*(Block() for _ in range(4))))


def train(model, *optimizers, steps=3, scheduler=None):
    torch.manual_seed(1)
    for _ in range(steps):
        model(torch.randn(4, 8)).square().mean().backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        if scheduler is not None:
            scheduler.step()
    return list(model.parameters())


def changed(change, kind=torch.optim.AdamW, model=None, **options):
    model = model or model_of_blocks()
    with changes.apply_changes([change]) as applied:
        optimizer = kind(model.parameters(), lr=0.01, **options)
    return model, optimizer, applied.reports()[0]


def pasted(report, model, kind, monkeypatch):
    """An optimizer, made after the code of a patch has run."""
    monkeypatch.setattr(torch.optim, kind.__name__, kind)
    exec(report["patch"], {"torch": torch, "model": model})
    return getattr(torch.optim, kind.__name__)(model.parameters(), lr=0.01)


def are_equal(some, others):
    return all(map(torch.equal, some, others))


@pytest.mark.parametrize("kind", KINDS)
def test_adafactor_trains_as_that_of_torch(kind, monkeypatch):
    expected = model_of_blocks()
    decay = {torch.optim.Adam: 0, torch.optim.AdamW: 0.01}[kind]
    by_hand = torch.optim.Adafactor(expected.parameters(), lr=0.01, weight_decay=decay)
    train(expected, by_hand)

    model, optimizer, report = changed("optimizer=adafactor", kind)

    assert are_equal(train(model, optimizer), expected.parameters())
    assert isinstance(optimizer, torch.optim.Adafactor)
    assert report["target"] == f"`Adafactor` in place of `{kind.__name__}`"
    assert (report["numerics"], report["slows"]) == ("training", True)
    again = model_of_blocks()
    assert are_equal(train(again, pasted(report, again, kind, monkeypatch)), expected.parameters())


@needs_muon
@pytest.mark.parametrize("kind", KINDS)
def test_muon_trains_weights_of_blocks_and_adam_the_rest(kind, monkeypatch):
    expected = model_of_blocks()
    of_blocks = [one for one in expected[1].parameters() if one.ndim == 2]
    rest = [one for one in expected.parameters() if all(one is not other for other in of_blocks)]
    options = {"lr": 0.01, "weight_decay": 0.1}
    muon = torch.optim.Muon(of_blocks, adjust_lr_fn="match_rms_adamw", **options)
    train(expected, muon, kind(rest, **options))

    model = model_of_blocks()
    _, optimizer, report = changed("optimizer=muon", kind, model, weight_decay=0.1)

    assert are_equal(train(model, optimizer), expected.parameters())
    assert (
        report["target"] == f"`Muon` for 8 weights of 4 × Block (1), `{kind.__name__}` for the rest"
    )
    assert {frozenset(optimizer.state[one]) for one in model[1].parameters() if one.ndim == 2} == {
        frozenset({"momentum_buffer"})
    }
    again, by_change = model_of_blocks(), model_of_blocks()
    _, optimizer, report = changed("optimizer=muon", kind, by_change)
    assert are_equal(
        train(again, pasted(report, again, kind, monkeypatch)), train(by_change, optimizer)
    )


@pytest.mark.parametrize(
    "change", ["optimizer=adafactor", pytest.param("optimizer=muon", marks=needs_muon)]
)
def test_groups_schedulers_hooks_and_checkpoints_go_on(change):
    model = model_of_blocks()
    decayed = [one for one in model.parameters() if one.ndim > 1]
    others = [one for one in model.parameters() if one.ndim == 1]
    groups = [{"params": iter(decayed), "weight_decay": 0.3, "eps": 1e-6}, {"params": others}]
    with changes.apply_changes([change]):
        optimizer = torch.optim.AdamW(groups, lr=0.01)
    assert optimizer.param_groups[0] is groups[0]
    assert [group["weight_decay"] for group in optimizer.param_groups] == [0.3, 0.01]
    steps = []
    optimizer.register_step_post_hook(lambda *_: steps.append(1))
    # It cycles `betas`, and has a rate for each group.
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, [0.01, 0.02], total_steps=20)
    train(model, optimizer, scheduler=scheduler)
    assert len(steps) == 3

    copied = copy.deepcopy((model, optimizer))
    saved = copy.deepcopy(optimizer.state_dict())
    again = copy.deepcopy(model)
    with changes.apply_changes([change]):
        restored = torch.optim.AdamW(
            [
                {"params": [one for one in again.parameters() if one.ndim > 1]},
                {"params": [one for one in again.parameters() if one.ndim == 1]},
            ]
        )
    restored.load_state_dict(saved)
    expected = train(model, optimizer, steps=2)
    assert are_equal(train(again, restored, steps=2), expected)
    assert are_equal(train(*copied, steps=2), expected)


@needs_muon
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("change", ["optimizer=adafactor", "optimizer=muon"])
def test_a_program_saves_the_whole_optimizer(programs, change, kind):
    if change == "optimizer=muon" and not hasattr(torch.optim, "Muon"):
        pytest.skip("torch 2.9 has Muon")
    program = f"""
        import copy, pathlib, torch
        from torch import nn

        def step():
            model(torch.ones(3, 5, 8)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()

        if pathlib.Path("both.pt").exists():
            model, optimizer = torch.load("both.pt", weights_only=False)
        else:
            torch.manual_seed(0)
            layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0)
            model = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
            optimizer = torch.optim.{kind.__name__}(model.parameters(), lr=0.01)
            step()
            torch.save((model, optimizer), "both.pt")
        assert type(copy.deepcopy(optimizer)) is type(optimizer)
        step()
        print(type(optimizer).__name__, [one.sum().item() for one in model.parameters()])
    """
    programs.write(program)
    saved = programs.floodmark("run", "-q", "--with", change, "program.py")
    assert saved.returncode == 0, saved.stderr
    # Where it is loaded, no change is applied.
    loaded = programs.python("program.py")
    assert loaded.returncode == 0, loaded.stderr
    assert loaded.stdout == saved.stdout
    assert not saved.stdout.startswith(kind.__name__)


def test_a_grad_scaler_skips_steps_of_muon_too():
    model, optimizer, _ = changed("optimizer=muon", fused=True)
    before = [one.detach().clone() for one in model.parameters()]
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(model(torch.randn(4, 8)).mean() * float("inf")).backward()
    scaler.step(optimizer)
    scaler.update()
    assert are_equal(model.parameters(), before)


@pytest.mark.parametrize(
    ("change", "options", "reason"),
    [
        ("optimizer=adafactor", {"amsgrad": True}, "`amsgrad` of `AdamW` has no counterpart in"),
        ("optimizer=muon", {"maximize": True}, "`maximize` of `AdamW` has no counterpart in Muon"),
        ("optimizer-states=paged-8bit", {"amsgrad": True}, "`amsgrad` of `AdamW`"),
    ],
)
def test_options_that_the_other_optimizer_has_not_are_respected(change, options, reason):
    _, optimizer, report = changed(change, **options)
    assert type(optimizer) is torch.optim.AdamW
    assert report["target"] == ""
    assert report["reason"].startswith(reason)


def test_a_rate_in_a_tensor_keeps_the_optimizer():
    model = model_of_blocks()
    with changes.apply_changes(["optimizer=adafactor"]) as applied:
        optimizer = torch.optim.AdamW(model.parameters(), lr=torch.tensor(0.01), foreach=False)
    assert len(optimizer.param_groups[0]["params"]) == len(list(model.parameters()))
    assert applied.reports()[0]["reason"] == "the learning rate is a tensor"


@needs_muon
def test_muon_needs_repeated_blocks():
    _, optimizer, report = changed("optimizer=muon", model=nn.Linear(8, 8))
    assert type(optimizer) is torch.optim.AdamW
    assert report["reason"] == "`Linear` has no repeated blocks"
    with changes.apply_changes(["optimizer=muon"]) as applied:
        torch.optim.AdamW([torch.zeros(2, 2, requires_grad=True)])
    assert applied.reports()[0]["reason"] == "no module has the parameters of the optimizer"


def test_an_older_torch_has_no_muon(monkeypatch):
    monkeypatch.delattr(torch.optim, "Muon", raising=False)
    _, optimizer, report = changed("optimizer=muon")
    assert type(optimizer) is torch.optim.AdamW
    assert report["reason"] == "this torch has no `Muon`, which came with torch 2.9"


def test_errors_of_the_program_are_those_of_its_own_optimizer():
    with (
        changes.apply_changes(["optimizer=adafactor"]),
        pytest.raises(ValueError, match="Invalid learning rate: -1"),
    ):
        torch.optim.AdamW([torch.zeros(2, requires_grad=True)], lr=-1)


def test_paged_states_need_bitsandbytes(monkeypatch):
    monkeypatch.setitem(sys.modules, "bitsandbytes", None)
    monkeypatch.setitem(sys.modules, "bitsandbytes.optim", None)
    _, optimizer, report = changed("optimizer-states=paged-8bit")
    assert type(optimizer) is torch.optim.AdamW
    assert "`bitsandbytes" in report["reason"]
    assert "torchao" not in report["reason"]


def test_constructors_are_put_back():
    before = [kind.__init__ for kind in KINDS]
    changed("optimizer=adafactor")
    assert [kind.__init__ for kind in KINDS] == before
