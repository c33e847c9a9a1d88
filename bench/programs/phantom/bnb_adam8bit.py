"""bitsandbytes: an optimizer with states of eight bits."""

import bitsandbytes
import torch
from transformers import GPT2Config, GPT2LMHeadModel


def main():
    with torch.device("cuda"):
        model = GPT2LMHeadModel(GPT2Config(n_layer=24, n_embd=1024, n_head=16))
    optimizer = bitsandbytes.optim.AdamW8bit(model.parameters(), lr=1e-4)
    for _ in range(4):
        ids = torch.randint(0, 50257, (4, 512), device="cuda")
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print("loss", loss.item())


if __name__ == "__main__":
    main()
