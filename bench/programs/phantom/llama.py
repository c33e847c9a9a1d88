"""A Llama of 7 or 70 billion parameters in bfloat16, built on the GPU, with AdamW."""

import sys
import time

import torch
from transformers import LlamaConfig, LlamaForCausalLM

SIZES = {
    "7b": {
        "hidden_size": 4096,
        "intermediate_size": 11008,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 32,
        "vocab_size": 32000,
    },
    "70b": {
        "hidden_size": 8192,
        "intermediate_size": 28672,
        "num_hidden_layers": 80,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
        "vocab_size": 128256,
    },
}


def main():
    config = LlamaConfig(**SIZES[sys.argv[1]], max_position_embeddings=8192)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        model = LlamaForCausalLM(config)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    for _ in range(4):
        before = time.perf_counter()
        ids = torch.randint(0, config.vocab_size, (1, 2048), device="cuda")
        model(input_ids=ids, labels=ids, use_cache=False).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"step: {time.perf_counter() - before:.3f} s", flush=True)


if __name__ == "__main__":
    main()
