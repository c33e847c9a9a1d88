"""`kv-cache`: `generate` of transformers keeps keys and values in another way."""

from __future__ import annotations

import copy

import pytest
import torch

from floodmark import changes
from floodmark.changes.change import is_installed

transformers = pytest.importorskip("transformers")

STATIC = ["kv-cache=static"]


@pytest.fixture
def model():
    config = transformers.LlamaConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
    )
    torch.manual_seed(0)
    return transformers.LlamaForCausalLM(config).eval()


@pytest.fixture
def caches(model):
    """The classes of the caches that the model was called with."""
    seen = []
    model.register_forward_pre_hook(
        lambda _model, _args, kwargs: seen.append(type(kwargs.get("past_key_values")).__name__),
        with_kwargs=True,
    )
    return seen


TOKENS = torch.arange(12).reshape(2, 6)


def generated(model, **options):
    return model.generate(TOKENS, max_new_tokens=8, do_sample=False, pad_token_id=0, **options)


def reason_of(applied):
    (report,) = applied.reports()
    assert report["target"] == ""
    return report["reason"]


def test_a_static_cache_generates_the_same_tokens(model, caches):
    expected = generated(model)
    caches.clear()
    with changes.apply_changes(STATIC) as applied:
        assert torch.equal(generated(model), expected)
        # A prompt of another length, and a configuration of the call.
        model.generate(TOKENS[:, :3], max_new_tokens=4, pad_token_id=0)
        given = transformers.GenerationConfig(max_new_tokens=4, pad_token_id=0)
        model.generate(TOKENS, generation_config=given)
        model.generate(TOKENS, given)
    assert set(caches) == {"StaticCache"}
    (report,) = applied.reports()
    assert report["target"] == "`generate` of `LlamaForCausalLM`"
    assert (report["numerics"], report["slows"]) == ("rounding", False)


def test_the_patch_does_the_same_and_the_change_is_undone(model, caches):
    pasted = copy.deepcopy(model)
    method = transformers.GenerationMixin.generate
    with changes.apply_changes(STATIC) as applied:
        expected = generated(model)
        assert transformers.GenerationMixin.generate is not method
    assert transformers.GenerationMixin.generate is method
    assert model.generation_config.cache_implementation is None
    assert not model.generation_config.disable_compile
    caches.clear()
    generated(model)
    assert set(caches) == {"DynamicCache"}

    (report,) = applied.reports()
    exec(report["patch"], {"torch": torch, "model": pasted})
    caches.clear()
    assert torch.equal(generated(pasted), expected)
    assert pasted.generation_config.cache_implementation == "static"
    assert pasted.generation_config.disable_compile


class Writer:
    """An object of the program that has the model, as a pipeline has it."""

    def __init__(self, model):
        self.lm = model

    def write(self):
        return self.lm.generate(TOKENS, max_new_tokens=8, do_sample=False, pad_token_id=0)


def test_the_patch_names_the_attribute_that_has_the_model(model):
    writer = Writer(model)
    del model
    with changes.apply_changes(STATIC) as applied:
        expected = writer.write()
    (report,) = applied.reports()
    assert "writer.lm.generation_config.cache_implementation" in report["patch"]
    exec(report["patch"], {"torch": torch, "writer": writer})
    assert torch.equal(writer.write(), expected)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"cache_implementation": "dynamic"}, "the program chooses a cache itself: `dynamic`"),
        ({"use_cache": False}, "the program turns the cache off"),
        ({"prompt_lookup_num_tokens": 2}, "assisted generation needs a cache that can become"),
    ],
)
def test_what_the_program_chooses_is_left_alone(model, options, reason):
    length = {"max_new_tokens": 4, "pad_token_id": 0}
    given = transformers.GenerationConfig(**length, **options)
    for call in ({**length, **options}, {"generation_config": given}):
        with changes.apply_changes(STATIC) as applied:
            model.generate(TOKENS[:1], **call)
        assert reason_of(applied).startswith(reason)


def test_a_cache_of_the_program_ends_it(model, caches):
    with changes.apply_changes(STATIC) as applied:
        generated(model)
        cache = transformers.DynamicCache(config=model.config)
        generated(model, past_key_values=cache)
        assert cache.get_seq_length() == 13
        caches.clear()
        generated(model)
    assert set(caches) == {"DynamicCache"}
    assert reason_of(applied) == "the program gives `generate` a cache of its own"


def test_a_loop_of_the_program_keeps_its_cache(model):
    with changes.apply_changes(STATIC) as applied, torch.no_grad():
        model(TOKENS, use_cache=True)
    assert reason_of(applied) == (
        "`LlamaForCausalLM` is called without `generate`: its cache is the program's own"
    )
    with changes.apply_changes(STATIC) as applied:
        torch.nn.Linear(2, 2)(torch.ones(2))
    assert reason_of(applied) == "the program does not call `generate` of transformers"


def test_what_cannot_be_is_said(model):
    with changes.apply_changes(["kv-cache=offloaded"]) as applied:
        generated(model)
    assert reason_of(applied) == "`LlamaForCausalLM` is on the CPU, and so is its cache"


def test_a_model_with_an_encoder_has_a_static_cache_alone():
    sizes = {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 2, "num_heads": 2}
    config = transformers.T5Config(vocab_size=64, decoder_start_token_id=0, **sizes)
    torch.manual_seed(0)
    model = transformers.T5ForConditionalGeneration(config).eval()
    expected = generated(model)
    with changes.apply_changes(STATIC) as applied:
        assert torch.equal(generated(model), expected)
    assert applied.reports()[0]["target"] == "`generate` of `T5ForConditionalGeneration`"
    with changes.apply_changes(["kv-cache=offloaded"]) as applied:
        assert torch.equal(generated(model), expected)
    assert "has an encoder: transformers has only a static cache" in reason_of(applied)


@pytest.mark.skipif(any(map(is_installed, ("optimum.quanto", "hqq"))), reason="one is installed")
def test_a_quantized_cache_needs_a_library(model):
    expected = generated(model)
    with changes.apply_changes(["kv-cache=quantized"]) as applied:
        assert torch.equal(generated(model), expected)
    assert reason_of(applied) == "neither `optimum-quanto` nor `hqq` is installed"
