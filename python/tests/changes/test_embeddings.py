"""Embeddings with sparse gradients, or with none."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from floodmark import changes


class Model(nn.Module):
    def __init__(self, *, tied: bool = False, **options) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.tokens = nn.Embedding(50, 8, **options)
        self.head = nn.Linear(8, 50, bias=False)
        if tied:
            self.head.weight = self.tokens.weight

    def forward(self, tokens):
        return self.head(torch.tanh(self.tokens(tokens)))


def trained(model, kind=torch.optim.SGD, *, clip=False, **options):
    optimizer = kind(model.parameters(), lr=0.1, **options)
    tokens = torch.tensor([[1, 2, 2], [7, 1, 3]])
    for _ in range(3):
        optimizer.zero_grad()
        F.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten()).backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
    return [one.detach().clone() for one in model.parameters()]


def report_of(change, model, *args, **options):
    with changes.apply_changes([change]) as applied:
        found = trained(model, *args, **options)
    return applied.reports()[0], found


class Checkpointed(Model):
    def __init__(self, *, is_reentrant: bool) -> None:
        super().__init__()
        self.body, self.is_reentrant = nn.Linear(8, 8), is_reentrant

    def forward(self, tokens):
        hidden = torch.utils.checkpoint.checkpoint(
            self.body, self.tokens(tokens), use_reentrant=self.is_reentrant
        )
        return self.head(torch.tanh(hidden))


def test_a_checkpoint_behind_a_frozen_embedding_keeps_its_gradients():
    expected = report_of("embeddings=frozen", Checkpointed(is_reentrant=False))[1]
    before = torch.utils.checkpoint.CheckpointFunction.apply
    model = Checkpointed(is_reentrant=True)
    report, found = report_of("embeddings=frozen", model)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
    assert not torch.equal(model.body.weight, Checkpointed(is_reentrant=True).body.weight)
    assert report["target"] == "1 × `Embedding`"
    assert torch.utils.checkpoint.CheckpointFunction.apply == before
    with torch.inference_mode():
        model(torch.tensor([[1, 2]]))

    pasted = Checkpointed(is_reentrant=True)
    exec(report["patch"], {"torch": torch, "model": pasted})
    torch.testing.assert_close(trained(pasted), expected, rtol=0, atol=0)
    with torch.inference_mode():
        pasted(torch.tensor([[1, 2]]))


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.Adagrad])
def test_sparse_gradients_train_the_same(kind):
    expected, model = trained(Model(), kind), Model()
    report, found = report_of("embeddings=sparse", model, kind)
    torch.testing.assert_close(found, expected)
    assert model.tokens.weight.grad.is_sparse
    assert model.tokens.sparse is False
    assert (report["target"], report["numerics"]) == ("1 × `Embedding`", "rounding")
    pasted = Model()
    exec(report["patch"], {"torch": torch, "model": pasted})
    torch.testing.assert_close(trained(pasted, kind), expected)
    assert pasted.tokens.weight.grad.is_sparse


@pytest.mark.parametrize(
    ("model", "kind", "options", "reason"),
    [
        ({}, torch.optim.AdamW, {}, "`AdamW` takes no sparse gradients; `SGD` and `Adagrad` do"),
        ({}, torch.optim.SGD, {"momentum": 0.9}, "`SGD` with `momentum` takes no sparse"),
        ({}, torch.optim.SGD, {"weight_decay": 0.1}, "`SGD` with `weight_decay` takes no sparse"),
        ({}, torch.optim.SGD, {"clip": True}, "the program clips gradients"),
        ({"tied": True}, torch.optim.SGD, {}, "the weight of `Embedding` is that of `head` too"),
        ({"scale_grad_by_freq": True}, torch.optim.SGD, {}, "has an option that torch computes"),
    ],
)
def test_gradients_stay_dense_where_sparse_ones_do_not_suit(model, kind, options, reason):
    expected = trained(Model(**model), kind, **options)
    report, found = report_of("embeddings=sparse", Model(**model), kind, **options)
    torch.testing.assert_close(found, expected)
    assert report["target"] == ""
    assert reason in report["reason"]


def test_frozen_embeddings_have_neither_gradients_nor_states():
    model = Model()
    before = model.tokens.weight.detach().clone()
    report, found = report_of("embeddings=frozen", model, torch.optim.AdamW)
    assert torch.equal(found[0], before)
    assert model.tokens.weight.grad is None
    assert model.tokens.weight.requires_grad
    assert (report["target"], report["numerics"]) == ("1 × `Embedding`", "training")
    pasted = Model()
    exec(report["patch"], {"torch": torch, "model": pasted})
    assert all(map(torch.equal, trained(pasted, torch.optim.AdamW), found))


def test_a_head_with_the_same_weight_is_frozen_too():
    class Deep(Model):
        def __init__(self) -> None:
            super().__init__(tied=True)
            self.body = nn.Linear(8, 8)

        def forward(self, tokens):
            return self.head(self.body(self.tokens(tokens)))

    report, _ = report_of("embeddings=frozen", Deep())
    assert report["target"] == "1 × `Embedding`, with `head`"


def test_a_model_keeps_something_to_train():
    expected = trained(Model(tied=True))
    report, found = report_of("embeddings=frozen", Model(tied=True))
    assert report["reason"] == "`Model` has nothing else to train"
    torch.testing.assert_close(found, expected)


def test_a_model_without_embeddings_says_so():
    with changes.apply_changes(["embeddings=frozen"]) as applied:
        nn.Linear(8, 8)(torch.randn(2, 8))
    assert applied.reports()[0]["reason"] == "`Linear` has no embeddings"
