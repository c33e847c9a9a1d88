"""`logits-to-keep`: the logits of the last tokens alone, for programs that read no others."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from floodmark import changes

transformers = pytest.importorskip("transformers")

TOKENS = torch.arange(12).reshape(2, 6)


class TokenModel(nn.Module):
    """A language model with (batch, tokens, width), or with the tokens first."""

    def __init__(self, *, is_batch_first: bool = True, size: int = 64) -> None:
        super().__init__()
        self.embedding = nn.Embedding(64, 8)
        self.mix = nn.Linear(8, 8)
        self.out = nn.Linear(8, size)
        self.is_batch_first = is_batch_first

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.mix(self.embedding(tokens))
        return self.out(x if self.is_batch_first else x.transpose(0, 1))


def gpt2():
    config = transformers.GPT2Config(
        n_layer=2,
        n_embd=32,
        n_head=4,
        vocab_size=64,
        n_positions=16,
        bos_token_id=0,
        eos_token_id=0,
    )
    return transformers.GPT2LMHeadModel(config)


def logits_of(model, tokens=TOKENS, **options):
    result = model(tokens, **options)
    return result if isinstance(model, TokenModel) else result.logits


@pytest.fixture(params=[gpt2, TokenModel])
def model(request):
    torch.manual_seed(0)
    return request.param().eval()


#: How programs read the logits of the last token.
LAST = [
    lambda one: one[:, -1],
    lambda one: one[:, -1, :],
    lambda one: one[..., -1, :],
    lambda one: one[:, -1:],
    lambda one: (one.float() / 0.7).softmax(-1)[:, -1],
    lambda one: one.argmax(-1)[:, -1],
    lambda one: one[0, -1],
    lambda one: one[1][-1],
    lambda one: torch.ones(2, 64)[torch.arange(2), one.argmax(-1)[:, -1]],
    lambda one: torch.mul(2.0, one)[:, -1],
    lambda one: one.topk(3).values[:, -1],
]


@pytest.mark.parametrize("read", LAST)
def test_a_program_that_reads_the_last_token_gets_the_same(model, read):
    with torch.no_grad():
        expected = read(logits_of(model))
        with changes.apply_changes(["logits-to-keep"]) as applied:
            found = read(logits_of(model))
            assert logits_of(model).shape == (2, 1, 64)
    torch.testing.assert_close(found, expected)
    (report,) = applied.reports()
    kind = type(model).__name__
    assert report["target"] == f"the logits of the last token of `{kind}` alone"
    assert report["numerics"] == "rounding"
    assert logits_of(model).shape == (2, 6, 64)
    assert type(found) is torch.Tensor


@pytest.mark.parametrize(
    ("count", "first"),
    [
        (1, "# only if the program reads no other logits than `logits[:, -1]`"),
        (3, "# only if the program reads no other logits than `logits[:, -3:]`"),
    ],
)
def test_the_patch_does_the_same(model, count, first):
    with torch.no_grad(), changes.apply_changes([f"logits-to-keep={count}"]) as applied:
        expected = logits_of(model)[:, -count:]
    (report,) = applied.reports()
    assert first in report["patch"]
    exec(report["patch"], {"torch": torch, "model": model})
    found = logits_of(model)
    assert found.shape == (2, count, 64)
    assert torch.equal(found, expected)


@pytest.mark.parametrize(
    "read",
    [
        lambda one: one[:, :-1],
        lambda one: one[..., :-1, :],
        lambda one: one[:, -2:],
        lambda one: one.log_softmax(-1)[:, :-1],
    ],
)
def test_the_change_ends_where_a_program_reads_other_tokens(model, read, capfd):
    with torch.no_grad(), changes.apply_changes(["logits-to-keep"]) as applied:
        read(logits_of(model))
        assert logits_of(model).shape == (2, 6, 64)
    (report,) = applied.reports()
    assert report["target"] == ""
    assert report["reason"].startswith("the program reads other logits in test_kept_logits.py:")
    assert "its results are wrong" in capfd.readouterr().err


def test_losses_and_wishes_of_the_program_are_left_alone():
    model = gpt2().eval()

    def reason(**options):
        with torch.no_grad(), changes.apply_changes(["logits-to-keep"]) as applied:
            logits_of(model, **options)
        return applied.reports()[0]["reason"]

    assert reason(labels=TOKENS) == "the program gives `labels`, and their loss needs all logits"
    assert reason(logits_to_keep=2) == "the program gives `logits_to_keep` itself"
    with changes.apply_changes(["logits-to-keep"]) as applied:
        model.generate(TOKENS, max_new_tokens=4, do_sample=False, pad_token_id=0)
    expected = "`generate` keeps the logits of the last token alone already"
    assert applied.reports()[0]["reason"] == expected


def test_other_models_may_be_called_before(model):
    with torch.no_grad(), changes.apply_changes(["logits-to-keep"]) as applied:
        nn.Linear(2, 2)(torch.ones(2))
        assert logits_of(model).shape == (2, 1, 64)
    (report,) = applied.reports()
    assert report["target"].endswith(f"of `{type(model).__name__}` alone")
    assert "model." in report["patch"]


def test_labels_of_a_later_call_end_it():
    model = gpt2().eval()
    with torch.no_grad(), changes.apply_changes(["logits-to-keep"]) as applied:
        logits_of(model)
        assert logits_of(model, labels=TOKENS).shape == (2, 6, 64)
    assert applied.reports()[0]["target"] == ""


def test_programs_that_train_are_left_alone(model):
    with changes.apply_changes(["logits-to-keep"]) as applied:
        logits_of(model.train()).sum().backward()
    assert "is called in training mode" in applied.reports()[0]["reason"]
    with changes.apply_changes(["logits-to-keep"]) as applied:
        logits_of(model.eval())
        torch.optim.SGD(model.parameters())
        assert logits_of(model).shape == (2, 6, 64)
    assert applied.reports()[0]["reason"] == "the program makes an optimizer (`SGD`)"


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (
            {"is_batch_first": False},
            "the hidden states of `TokenModel` are not of (batch, tokens, width)",
        ),
        ({"size": 10}, "`TokenModel` has no `Linear` with the outputs of a vocabulary at its end"),
    ],
)
def test_other_models_compute_all_outputs(options, reason):
    model = TokenModel(**options).eval()
    expected = model(TOKENS)
    with changes.apply_changes(["logits-to-keep"]) as applied:
        assert torch.equal(model(TOKENS), expected)
    assert applied.reports()[0]["reason"].endswith(reason)
