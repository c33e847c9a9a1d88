"""MLPs in chunks of tokens: which modules are MLPs, and that they compute the same."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from floodmark import changes

WIDTH = 8


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(WIDTH, 4 * WIDTH)
        self.second = nn.Linear(4 * WIDTH, WIDTH, bias=False)
        self.rows: list[int] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.rows.append(x.numel() // WIDTH)
        return self.second(F.gelu(self.first(x)))


class Attention(nn.Module):
    """Has two `Linear`, as an MLP has, and mixes tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(WIDTH, 3 * WIDTH)
        self.second = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value = self.first(x).split(WIDTH, -1)
        return self.second(F.scaled_dot_product_attention(query, key, value))


class Block(nn.Module):
    def __init__(self, *inner: nn.Module) -> None:
        super().__init__()
        self.inner = nn.ModuleList(inner)
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for one in self.inner:
            x = x + one(self.norm(x))
        return x


def blocks_of(*kinds: type[nn.Module]) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(*(Block(*(kind() for kind in kinds)) for _ in range(4)))


def trained(model: nn.Module, *shape: int) -> list[torch.Tensor]:
    """The result, and all gradients."""
    model.zero_grad()
    torch.manual_seed(1)
    x = torch.randn(*(shape or (3, 5, WIDTH)), requires_grad=True)
    result = model(x)
    result.square().mean().backward()
    return [result.detach(), x.grad, *(one.grad for one in model.parameters())]


def changed(model: nn.Module, *shape: int):
    """The report of the change; the results are those of the unchanged model."""
    expected = trained(model, *shape)
    with changes.apply_changes(["chunked-mlp=4"]) as applied:
        found = trained(model, *shape)
    torch.testing.assert_close(found, expected)
    methods = ("forward", "_ff_block", "feed_forward_chunk")
    assert not any(name in vars(one) for one in model.modules() for name in methods)
    return applied.reports()[0]


@pytest.mark.parametrize("shape", [(3, 5, WIDTH), (13, WIDTH), (2, 2, 3, WIDTH), (1, 2, WIDTH)])
def test_an_mlp_computes_chunks_of_tokens_and_again_in_the_backward_pass(shape):
    model = blocks_of(Attention, Mlp)
    report = changed(model, *shape)
    assert report["target"] == "4 × Mlp"
    assert (report["slows"], report["numerics"]) == (True, "rounding")
    tokens = torch.empty(shape).numel() // WIDTH
    rows = [len(part) for part in torch.arange(tokens).chunk(4)]
    for block in model:
        assert block.inner[1].rows == [tokens, *rows, *reversed(rows)]


def test_the_patch_does_the_same():
    model = blocks_of(Attention, Mlp)
    expected = trained(model)
    patch = changed(model)["patch"]
    exec(patch, {"torch": torch, "model": model})
    torch.testing.assert_close(trained(model), expected)
    assert model[0].inner[1].rows[-8:] == [4, 4, 4, 3, 3, 4, 4, 4]
    assert "    block.inner[1].forward = in_chunks(block.inner[1].forward, 4)\n" in patch


def test_a_block_that_computes_each_token_alone_is_chunked_as_a_whole():
    report = changed(blocks_of(Mlp))
    assert report["target"] == "4 × Block"
    assert "    block.forward = in_chunks(block.forward, 4)\n" in report["patch"]


def test_inference_stays_whole():
    model = blocks_of(Attention, Mlp)
    with changes.apply_changes(["chunked-mlp=4"]):
        trained(model)
        with torch.no_grad():
            model(torch.randn(3, 5, WIDTH))
    assert model[0].inner[1].rows[-1] == 15


class Gated(nn.Module):
    """A product of two halves, and a norm of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.both = nn.Linear(WIDTH, 6 * WIDTH)
        self.norm = nn.RMSNorm(3 * WIDTH)
        self.down = nn.Linear(3 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate, up = self.both(x).chunk(2, dim=-1)
        scaled = up / up.abs().amax(-1, keepdim=True).clamp(min=1e-3)
        return self.down(self.norm(F.silu(gate) * scaled))


def test_gates_norms_and_splits_of_the_width_are_part_of_an_mlp():
    assert changed(blocks_of(Attention, Gated))["target"] == "4 × Gated"


def of(compute):
    """A class of modules with two `Linear`, and something between them."""

    class Other(Mlp):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.second(compute(self, self.first(x)))

    return Other


REFUSED = {
    "a mean of all tokens": (lambda _, x: x - x.mean(1, keepdim=True), "it runs `mean`"),
    "a softmax of tokens": (lambda _, x: x.softmax(1), "it runs `_softmax`"),
    "earlier tokens": (lambda _, x: x.roll(1, 1), "it runs `roll`"),
    "a convolution": (
        lambda _, x: F.conv1d(x.mT, torch.ones(4 * WIDTH, 1, 3), padding=1, groups=4 * WIDTH).mT,
        "it runs `transpose`",
    ),
    "positions": (lambda _, x: x + torch.arange(x.shape[1], device=x.device)[:, None], "`add`"),
    "the number of tokens": (lambda _, x: x / x.shape[1], "depends on the number of tokens"),
    "a branch on values": (lambda _, x: x if x.sum() > 0 else -x, "cannot be followed"),
    "another number of tokens": (lambda _, x: torch.cat([x, x], 1)[:, ::2], "it runs `cat`"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_module_that_may_mix_tokens_stays_whole(name):
    compute, reason = REFUSED[name]
    report = changed(blocks_of(Attention, of(compute)))
    assert report["target"] == ""
    assert reason in report["reason"]


def test_batch_norm_mixes_tokens():
    class Normed(Mlp):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.BatchNorm1d(4 * WIDTH)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.second(self.norm(self.first(x)))

    model = nn.Sequential(*(nn.Sequential(Normed(), nn.Tanh()) for _ in range(4)))
    report = changed(model, 12, WIDTH)
    assert report["reason"].endswith("it runs `native_batch_norm`, which may mix tokens")


def test_a_model_without_blocks_has_no_mlp():
    report = changed(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()))
    assert report["reason"] == "`Sequential` has no repeated blocks"
    report = changed(blocks_of(Attention))
    assert report["reason"] == (
        "`Attention` stays whole: it runs `transpose`, which may mix tokens"
    )


def test_hooks_see_only_what_the_program_computes():
    model = blocks_of(Attention, Mlp)
    devices = set()
    for block in model:
        hook = block.inner[1].first.register_forward_hook
        hook(lambda *found: devices.add(found[2].device.type))
    changed(model)
    assert devices == {"cpu"}


def test_dropout_draws_other_numbers():
    def dropped(_, x):
        return F.dropout(x, 0.5)

    torch.manual_seed(0)
    model = blocks_of(Attention, of(dropped))
    with changes.apply_changes(["chunked-mlp=4"]) as applied:
        first, second = trained(model), trained(model)
    # The recomputation drops what the forward pass has dropped, so the gradients are right.
    torch.testing.assert_close(first, second)
    assert applied.reports()[0]["numerics"] == "changed"
    exec(applied.reports()[0]["patch"], {"torch": torch, "model": model})
    torch.testing.assert_close(trained(model), first)


def test_layers_of_torch_have_their_mlp_in_a_method():
    layer = nn.TransformerEncoderLayer(WIDTH, 2, 4 * WIDTH, dropout=0.0, batch_first=True)
    model = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
    report = changed(model)
    assert report["target"] == "4 × the MLP of TransformerEncoderLayer"
    assert report["numerics"] == "rounding"
    assert "block._ff_block = in_chunks(block._ff_block, 4)\n" in report["patch"]


def of_transformers(kind, **options):
    transformers = pytest.importorskip("transformers")
    config = getattr(transformers, f"{kind}Config")(**options)
    torch.manual_seed(0)
    return transformers.AutoModelForCausalLM.from_config(config)


MODELS = {
    "GPT2": {"n_layer": 4, "n_embd": 16, "n_head": 2, "vocab_size": 32, "n_positions": 8}
    | dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0),
    "Llama": {"num_hidden_layers": 4, "hidden_size": 16, "intermediate_size": 40}
    | {"num_attention_heads": 2, "vocab_size": 32},
    "Bert": {"num_hidden_layers": 4, "hidden_size": 16, "intermediate_size": 40, "vocab_size": 32}
    | {"num_attention_heads": 2, "is_decoder": True}
    | dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob"), 0.0),
}


@pytest.mark.parametrize(
    ("kind", "target"),
    [("GPT2", "4 × GPT2MLP"), ("Llama", "4 × LlamaMLP"), ("Bert", "4 × the MLP of BertLayer")],
)
@pytest.mark.parametrize("texts", [["chunked-mlp=2"], ["chunked-mlp=2", "checkpoint=all"]])
def test_models_of_transformers_have_mlps(kind, target, texts):
    model = of_transformers(kind, **MODELS[kind])
    ids = torch.arange(16).view(2, 8)

    def losses():
        model.zero_grad()
        loss = model(ids, labels=ids).loss
        loss.backward()
        return [loss.detach(), *(one.grad for one in model.parameters())]

    expected = losses()
    with changes.apply_changes(texts) as applied:
        torch.testing.assert_close(losses(), expected)
    report = next(one for one in applied.reports() if one["change"] == "chunked-mlp=2")
    assert (report["target"], report["numerics"]) == (target, "rounding")
    exec(report["patch"], {"torch": torch, "model": model})
    torch.testing.assert_close(losses(), expected)
