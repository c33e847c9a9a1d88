"""`generate` of transformers on a simulated GPU: every search goes on to its greatest length."""

from __future__ import annotations

import json

import pytest
from support.answer_schema import check_answer
from support.phantoms import needs_cuda_build

pytestmark = needs_cuda_build

NEW_TOKENS = 12
#: How many tokens prompt lookup guesses; a call of the model yields the right ones and one more.
GUESSED = 2

#: The token that ends a sequence is 0, which is also what values count as that were not computed.
PROGRAM = f"""
    import json
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=500, hidden_size=32, intermediate_size=64, num_hidden_layers=1,
        num_attention_heads=2, num_key_value_heads=2, eos_token_id=0, pad_token_id=0,
    )
    model = LlamaForCausalLM(config).to("cuda").eval()
    calls = []
    model.register_forward_hook(lambda *_: calls.append(1))
    searches = {{
        "greedy": {{}},
        "sampled": dict(do_sample=True),
        "beams": dict(num_beams=3),
        "sampled beams": dict(num_beams=3, do_sample=True),
        "prompt lookup": dict(prompt_lookup_num_tokens={GUESSED}),
    }}
    found = {{}}
    for name, options in searches.items():
        calls.clear()
        prompt = torch.randint(1, 500, (1, 8), device="cuda")
        tokens = model.generate(prompt, max_new_tokens={NEW_TOKENS}, **options)
        found[name] = (tokens.shape[1] - prompt.shape[1], len(calls))
    with open("found.json", "w") as file:
        json.dump(found, file)
"""


@pytest.mark.parametrize("engine", ["phantom", "fake"])
def test_every_search_generates_all_tokens(programs, engine):
    pytest.importorskip("transformers")
    programs.write(PROGRAM, "generate.py")
    words = ("--engine", engine, "--gpu", "h200", "--json", "-o", "a.flood", "generate.py")
    done = programs.floodmark("estimate", *words)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    check_answer("estimate", answer)
    found = json.loads((programs.folder / "found.json").read_text())
    tokens = {search: new for search, (new, _) in found.items()}
    calls = {search: count for search, (_, count) in found.items()}
    if engine == "fake":
        # A search over beams cuts its result at a length that it reads, which fake tensors lack.
        tokens = {search: new for search, new in tokens.items() if "beams" not in search}
    assert set(tokens.values()) == {NEW_TOKENS}, tokens
    # The weights are random at each start, and so is how many guesses are right.
    assert NEW_TOKENS / (GUESSED + 1) <= calls.pop("prompt lookup") <= NEW_TOKENS
    assert set(calls.values()) == {NEW_TOKENS}, calls
    assert "transformers: every generated sequence has the maximum length" in answer["notes"]
