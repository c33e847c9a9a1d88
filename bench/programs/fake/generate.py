"""transformers: a Llama that is saved, loaded from its folder, and generates."""

import tempfile

import torch
from transformers import AutoModelForCausalLM, LlamaConfig


def main():
    config = LlamaConfig(
        hidden_size=1024,
        intermediate_size=2816,
        num_hidden_layers=8,
        num_attention_heads=16,
        num_key_value_heads=4,
        vocab_size=32000,
    )
    with tempfile.TemporaryDirectory() as folder:
        AutoModelForCausalLM.from_config(config).save_pretrained(folder)
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
    model = model.cuda().eval()
    ids = torch.randint(3, 32000, (8, 512), device="cuda")
    mask = torch.ones_like(ids)
    options = {"attention_mask": mask, "pad_token_id": 0, "max_new_tokens": 16}
    print(model.generate(ids, **options, do_sample=False).shape)
    print(model.generate(ids, **options, do_sample=True, top_p=0.9).shape)


if __name__ == "__main__":
    main()
