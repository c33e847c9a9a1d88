"""`attention=sdpa`: eager models of transformers call torch's attention."""

from __future__ import annotations

import json

import pytest
import torch
from support.phantoms import needs_cuda_build

from floodmark import changes

transformers = pytest.importorskip("transformers")

SHAPE = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
}


def causal(kind="Llama", implementation="eager", **options):
    config = getattr(transformers, f"{kind}Config")(**SHAPE | options)
    config._attn_implementation = implementation
    torch.manual_seed(0)
    return getattr(transformers, f"{kind}ForCausalLM")(config)


def gradients(model, mask=None, **options):
    model.zero_grad()
    torch.manual_seed(1)
    tokens = torch.randint(0, 64, (3, 12))
    labels = tokens if mask is None else tokens.where(mask.bool(), -100)
    done = model(input_ids=tokens, labels=labels, attention_mask=mask, use_cache=False, **options)
    done.loss.backward()
    return done, [one.grad.clone() for one in model.parameters()]


@pytest.mark.parametrize("kind", ["Llama", "Qwen3", "Gemma3"])
@pytest.mark.parametrize("is_padded", [False, True])
def test_results_differ_by_rounding_alone(kind, is_padded):
    if kind == "Gemma3":
        kind, options = "Gemma3", {"layer_types": ["sliding_attention", "full_attention"]}
        config = transformers.Gemma3TextConfig(**SHAPE | options, sliding_window=4)
        config._attn_implementation = "eager"
        torch.manual_seed(0)
        model = transformers.Gemma3ForCausalLM(config)
    else:
        model = causal(kind)
    mask = torch.ones(3, 12, dtype=torch.long)
    mask[0, 7:] = 0
    mask = mask if is_padded else None
    _, expected = gradients(model, mask)
    with changes.apply_changes(["attention=sdpa"]) as applied:
        _, found = gradients(model, mask)
        assert model.config._attn_implementation == "sdpa"
    assert model.config._attn_implementation == "eager"
    for one, other in zip(found, expected, strict=True):
        assert (one - other).norm() <= 1e-4 * other.norm() + 1e-7
    (report,) = applied.reports()
    assert (report["target"], report["numerics"]) == (f"`{kind}ForCausalLM`", "rounding")
    exec(report["patch"], {"torch": torch, "model": model})
    assert model.config._attn_implementation == "sdpa"


@pytest.mark.parametrize(
    ("kind", "options", "reason"),
    [
        ("Llama", {"implementation": "sdpa"}, "does not compute its attention in Python"),
        ("Gemma2", {"attn_logit_softcapping": 50.0}, "has a soft cap"),
        ("GptOss", {"num_local_experts": 4}, "has no other attention"),
        ("Llama", {"output_attentions": True}, "asks for the weights"),
    ],
)
def test_other_attention_is_left_alone(kind, options, reason):
    model = causal(kind, **options)
    _, expected = gradients(model)
    with changes.apply_changes(["attention=sdpa"]) as applied:
        _, found = gradients(model)
    assert all(map(torch.equal, found, expected))
    assert reason in applied.reports()[0]["reason"]


def test_a_program_that_asks_for_weights_gets_them():
    model = causal()
    with changes.apply_changes(["attention=sdpa"]) as applied:
        gradients(model)
        done, _ = gradients(model, output_attentions=True)
        assert [one.shape for one in done.attentions] == [(3, 4, 12, 12)] * 2
    assert "asks for the weights" in applied.reports()[0]["reason"]


def test_a_model_that_generates_uses_the_attention_of_torch():
    model = causal().eval()
    tokens = torch.arange(8).reshape(1, 8)
    expected = model.generate(tokens, max_new_tokens=4, do_sample=False, pad_token_id=0)
    with changes.apply_changes(["attention=sdpa"]) as applied:
        found = model.generate(tokens, max_new_tokens=4, do_sample=False, pad_token_id=0)
        assert model.config._attn_implementation == "sdpa"
    assert torch.equal(found, expected)
    (report,) = applied.reports()
    assert report["target"] == "`LlamaForCausalLM`"
    assert "# after the model is made\n" in report["patch"]


def test_dropout_draws_other_random_numbers():
    model = causal(attention_dropout=0.1)
    with changes.apply_changes(["attention=sdpa"]) as applied:
        gradients(model)
    assert applied.reports()[0]["numerics"] == "changed"


PROGRAM = """\
import torch
from transformers import LlamaConfig, LlamaForCausalLM

config = LlamaConfig(
    vocab_size=512, hidden_size=256, intermediate_size=512, num_hidden_layers=4,
    num_attention_heads=8, num_key_value_heads=8,
)
config._attn_implementation = "eager"
model = LlamaForCausalLM(config).cuda()
optimizer = torch.optim.AdamW(model.parameters())
tokens = torch.randint(0, 512, (2, 1024), device="cuda")
for _ in range(2):
    loss = model(input_ids=tokens, labels=tokens, use_cache=False).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@needs_cuda_build
def test_weights_of_all_pairs_are_not_kept(programs):
    programs.environment |= {"HF_HUB_OFFLINE": "1"}
    marker = "optimizer = "

    def peak(source, *words):
        programs.write(source, "train.py")
        done = programs.floodmark(
            "estimate", "--json", "-q", "-o", "a.flood", "--force", *words, "train.py"
        )
        found = json.loads(done.stdout)
        return found["peak_allocated"], found["changes"]

    before, _ = peak(PROGRAM)
    after, (report,) = peak(PROGRAM, "--with", "attention=sdpa")
    # Four layers kept weights of 2 × 8 × 1024 × 1024 pairs, 64 MiB in fp32, and more.
    assert before - after > 4 * 96 << 20
    assert peak(PROGRAM.replace(marker, report["patch"] + marker))[0] == after
