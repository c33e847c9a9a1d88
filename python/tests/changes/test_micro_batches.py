"""Batches in parts: the loss and all gradients are those of the whole batch."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from floodmark import changes

WIDTH, CLASSES = 8, 11


class Model(nn.Module):
    """Computes its loss where it gets labels."""

    def __init__(self, *, dropout: float = 0.0) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.tokens = nn.Embedding(CLASSES, WIDTH)
        self.body = nn.Linear(WIDTH, WIDTH)
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(WIDTH, CLASSES)
        self.rows: list[int] = []

    def forward(self, tokens, labels=None, positions=None, **options):
        self.rows.append(len(tokens))
        hidden = self.dropout(torch.tanh(self.body(self.tokens(tokens))))
        logits = self.head(hidden if positions is None else hidden * positions[..., None])
        return logits if labels is None else (self.loss_of(logits, labels, **options), logits)

    def loss_of(self, logits, labels, **options):
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), **options)


def batch(size=6):
    torch.manual_seed(1)
    tokens, labels = torch.randint(0, CLASSES, (2, size, 5)).unbind()
    labels[0] = -100
    labels[1, ::2] = -100
    return tokens, labels


def trained(model, *args, **kwargs):
    model.zero_grad()
    found = model(*args, **kwargs)
    loss = found[0] if isinstance(found, tuple) else found.square().mean()
    loss.backward()
    logits = found[1] if isinstance(found, tuple) else found
    return [loss.detach(), logits.detach(), *(one.grad for one in model.parameters())]


def changed(model, *args, parts=3, **kwargs):
    """The report of the change; the results are those of the unchanged model."""
    expected = trained(model, *args, **kwargs)
    model.rows.clear()
    with changes.apply_changes([f"micro-batches={parts}"]) as applied:
        found = trained(model, *args, **kwargs)
    torch.testing.assert_close(found, expected)
    assert "forward" not in vars(model)
    assert F.cross_entropy.__module__ == "torch.nn.functional"
    return applied.reports()[0]


@pytest.mark.parametrize(("size", "rows"), [(6, [2, 2, 2]), (5, [2, 2, 1]), (2, [1, 1])])
def test_parts_are_computed_again_but_for_the_last_one(size, rows):
    model = Model()
    report = changed(model, *batch(size))
    assert model.rows == [*rows, *reversed(rows[:-1])]
    assert report["target"] == f"`Model`, batches of {size} in {len(rows)} parts"
    assert (report["slows"], report["numerics"]) == (True, "rounding")


@pytest.mark.parametrize("ignored", [[0], [0, 1], range(6)])
def test_a_mean_counts_the_labels_of_the_whole_batch(ignored):
    tokens, labels = batch()
    for row in ignored:
        labels[row] = -100
    model = Model()
    expected = trained(model, tokens, labels)
    with changes.apply_changes(["micro-batches=3"]):
        found = trained(model, tokens, labels)
    torch.testing.assert_close(found, expected, equal_nan=True)


def test_sums_are_added_and_options_are_kept():
    tokens, labels = batch()
    assert changed(Model(), tokens, labels, reduction="sum")["target"]
    assert changed(Model(), tokens, labels, label_smoothing=0.1)["target"]
    assert changed(Model(), tokens, labels.clamp(min=3), ignore_index=3)["target"]


def test_a_result_without_a_loss_is_joined():
    tokens, _ = batch()
    assert changed(Model(), tokens)["target"]
    positions = torch.arange(5.0)[None]
    assert changed(Model(), tokens, positions=positions)["target"]


def test_the_patch_does_the_same():
    model, (tokens, labels) = Model(), batch()
    expected = trained(model, tokens, labels)
    patch = changed(model, tokens, labels)["patch"]
    exec(patch, {"torch": torch, "model": model})
    model.rows.clear()
    torch.testing.assert_close(trained(model, tokens, labels), expected)
    assert model.rows == [2, 2, 2, 2, 2]


def test_inference_and_single_samples_stay_whole():
    model, (tokens, _) = Model(), batch()
    with changes.apply_changes(["micro-batches=3"]) as applied:
        with torch.no_grad():
            model(tokens)
        trained(model, tokens[:1])
    assert model.rows == [6, 1]
    assert applied.reports()[0]["reason"] == "no batch had two samples or more"


def test_dropout_draws_other_numbers():
    model, (tokens, labels) = Model(dropout=0.5), batch()
    with changes.apply_changes(["micro-batches=3"]) as applied:
        trained(model, tokens, labels)
    assert applied.reports()[0]["numerics"] == "changed"


def of(compute):
    """A model with another loss."""

    class Other(Model):
        loss_of = compute

    return Other()


def plain(logits, labels, **options):
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), **options)


NO_LOSS = "a number in its result is no mean or sum by `cross_entropy`"
REFUSED = {
    "a factor": (lambda _, x, y: plain(x, y) * 0.5, NO_LOSS),
    "another term": (lambda _, x, y: plain(x, y) + x.square().mean(), NO_LOSS),
    "weights": (lambda _, x, y: plain(x, y, weight=torch.arange(1.0, CLASSES + 1)), NO_LOSS),
    "a mean of its own": (lambda _, x, y: plain(x, y, reduction="none").mean(), NO_LOSS),
    "another loss": (lambda _, x, y: F.mse_loss(x, torch.ones_like(x)), NO_LOSS),
    "a part of it": (lambda _, x, y: x.mean((1, 2)) * plain(x, y), "not its result, but a part"),
    "pairs": (lambda _, x, y: x.flatten(1) @ x.flatten(1).T, "compares samples of a part"),
    "no batch": (lambda _, x, y: x.sum((0, 1)), "not of a batch"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_result_that_cannot_be_joined_is_computed_as_before(name):
    compute, reason = REFUSED[name]
    model, (tokens, labels) = of(compute), batch()
    expected = model(tokens, labels)
    with changes.apply_changes(["micro-batches=3"]) as applied:
        torch.testing.assert_close(model(tokens, labels), expected)
    report = applied.reports()[0]
    assert report["target"] == ""
    assert reason in report["reason"]


def test_random_numbers_of_a_refused_part_are_drawn_again():
    class Dropped(Model):
        def loss_of(self, logits, labels):
            return plain(logits, labels) * 0.5

    model, (tokens, labels) = Dropped(dropout=0.5), batch()
    torch.manual_seed(5)
    expected = model(tokens, labels)
    torch.manual_seed(5)
    with changes.apply_changes(["micro-batches=3"]):
        torch.testing.assert_close(model(tokens, labels), expected)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"positions": torch.ones(5)}, "it gets a tensor of (5,) with a batch of 6 samples"),
        ({"unused": [torch.ones(6)]}, "it gets a `list`, which may be of the batch"),
        ({"unused": {1, 2}}, "it gets a `set`, which may be of the batch"),
    ],
)
def test_arguments_without_a_batch_are_left_whole(options, reason):
    class Lenient(Model):
        def loss_of(self, logits, labels, **_):
            return plain(logits, labels)

    model, (tokens, labels) = Lenient(), batch()
    with changes.apply_changes(["micro-batches=3"]) as applied:
        model(tokens, labels, **options)
    assert applied.reports()[0]["reason"] == reason
    assert model.rows == [6]


@pytest.mark.parametrize(
    ("inner", "reason"),
    [
        (nn.BatchNorm1d(WIDTH), "`BatchNorm1d` computes statistics of the whole batch"),
        (nn.LSTM(WIDTH, WIDTH), "`LSTM` has `batch_first=False`: the first dimension may not be"),
    ],
)
def test_models_that_mix_samples_are_left_whole(inner, reason):
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), inner)
    with changes.apply_changes(["micro-batches=2"]) as applied:
        model(torch.randn(4, WIDTH))
    assert applied.reports()[0]["reason"].startswith(reason)


class Wide(nn.Module):
    """Has enough logits for `chunked-loss=head`."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.tokens, self.head = nn.Embedding(20_000, WIDTH), nn.Linear(WIDTH, 20_000)
        self.kind = kind

    def forward(self, tokens):
        logits = RESULTS[self.kind](self.head(torch.tanh(self.tokens(tokens))))
        if self.kind == "alone":
            return logits
        if self.kind == "used inside":
            logits = logits * logits.argmax(-1, keepdim=True).sign()
        loss = F.cross_entropy(logits.flatten(0, 1).float(), tokens.flatten())
        return loss, logits[:, 0, :5] if self.kind == "a part" else logits


RESULTS = {
    "alone": lambda logits: logits,
    "beside the loss": lambda logits: logits,
    "moved": lambda logits: logits.transpose(1, 2)[:, :-1].transpose(1, 2)[:, :80],
    "viewed": lambda logits: logits.view(-1, 80, 2, 10_000).flatten(2),
    "with a tensor": lambda logits: logits * torch.tensor(0.5),
    "used inside": lambda logits: logits,
    "a part": lambda logits: logits,
}


def of_wide(model, *, reads_logits=False):
    """The loss and all gradients of one step; logits may be read before the backward pass."""
    tokens = torch.arange(320).view(4, 80)
    model.zero_grad()
    found = model(tokens)
    logits = found[1] if isinstance(found, tuple) else found
    read = logits.sum().detach() if reads_logits else torch.zeros(())
    loss = found[0] if isinstance(found, tuple) else flat(logits, tokens)
    loss.backward()
    return [loss.detach(), read, *(one.grad for one in model.parameters())]


def flat(logits, tokens):
    return F.cross_entropy(logits.flatten(0, 1), tokens.flatten())


def of_both(model, **options):
    """What both changes say; the results are those of the unchanged model, in each step."""
    expected = of_wide(model, **options)
    with changes.apply_changes(["micro-batches=2", "chunked-loss=head"]) as applied:
        for _ in range(3):
            torch.testing.assert_close(of_wide(model, **options), expected)
    assert all("forward" not in vars(one) for one in model.modules())
    return applied.reports()


@pytest.mark.parametrize("kind", ["alone", "beside the loss", "a part", "moved"])
def test_a_head_in_chunks_goes_with_parts(kind):
    of_head, of_parts = of_both(Wide(kind))
    assert of_head["target"].endswith(" logits in float32")
    assert of_parts["target"] == "`Wide`, batches of 4 in 2 parts"


def test_both_patches_in_one_program_do_the_same():
    model = Wide("beside the loss")
    of_head, of_parts = of_both(model)
    expected = of_wide(model)
    exec(of_head["patch"] + of_parts["patch"], {"torch": torch, "model": model})
    torch.testing.assert_close(of_wide(model), expected)
    assert type(model(torch.arange(320).view(4, 80))[1]).__name__ == "Logits"


@pytest.mark.parametrize("kind", ["beside the loss", "alone"])
def test_logits_of_parts_that_are_read_are_computed(kind):
    of_head, of_parts = of_both(Wide(kind), reads_logits=True)
    assert of_head["reason"].startswith("the program uses all logits")
    assert of_parts["target"] == "`Wide`, batches of 4 in 2 parts"


@pytest.mark.parametrize("kind", ["moved", "viewed", "with a tensor", "used inside"])
def test_logits_of_parts_may_be_anything(kind):
    for reads_logits in (False, True):
        _, of_parts = of_both(Wide(kind), reads_logits=reads_logits)
        assert of_parts["target"] == "`Wide`, batches of 4 in 2 parts"


def test_the_gradient_of_joined_logits_is_there_where_the_program_wants_it():
    def gradients():
        model.zero_grad()
        logits = model(tokens)
        logits.retain_grad()
        flat(logits, tokens).backward()
        return [logits.grad, *(one.grad for one in model.parameters())]

    model, tokens = Wide("alone"), torch.arange(320).view(4, 80)
    expected = gradients()
    with changes.apply_changes(["micro-batches=2", "chunked-loss=head"]):
        torch.testing.assert_close(gradients(), expected)


@pytest.mark.parametrize("texts", [["chunked-mlp=2"], ["checkpoint=all"], []])
@pytest.mark.parametrize("items", [None, 9])
def test_a_model_of_transformers_has_the_same_loss(items, texts):
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 16, "intermediate_size": 40, "vocab_size": 32}
    config = transformers.LlamaConfig(num_hidden_layers=4, num_attention_heads=2, **sizes)
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(config)
    ids = torch.randint(0, 32, (4, 8))
    given = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids.clone()}
    given["labels"][0, 2:] = -100

    def losses():
        model.zero_grad()
        out = model(**given, num_items_in_batch=items)
        out.loss.backward()
        return [out.loss.detach(), out.logits, *(one.grad for one in model.parameters())]

    expected = losses()
    with changes.apply_changes(["micro-batches=3", *texts]) as applied:
        torch.testing.assert_close(losses(), expected)
    report = next(one for one in applied.reports() if one["change"] == "micro-batches=3")
    assert report["target"] == "`LlamaForCausalLM`, batches of 4 in 2 parts"
    assert model.config.use_cache is True
    exec(report["patch"], {"torch": torch, "model": model})
    torch.testing.assert_close(losses(), expected)
