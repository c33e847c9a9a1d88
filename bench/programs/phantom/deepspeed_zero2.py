"""DeepSpeed: GPT-2 with ZeRO stage 2 and bfloat16."""

import deepspeed
import torch
from transformers import GPT2Config, GPT2LMHeadModel


def main():
    deepspeed.init_distributed()
    model = GPT2LMHeadModel(GPT2Config(n_layer=24, n_embd=1024, n_head=16))
    config = {
        "train_micro_batch_size_per_gpu": 4,
        "bf16": {"enabled": True},
        "zero_optimization": {"stage": 2, "overlap_comm": True},
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "torch_adam": True}},
    }
    engine, *_ = deepspeed.initialize(
        model=model, model_parameters=model.parameters(), config=config
    )
    for _ in range(4):
        ids = torch.randint(0, 50257, (4, 512), device=engine.device)
        loss = engine(input_ids=ids, labels=ids).loss
        engine.backward(loss)
        engine.step()


if __name__ == "__main__":
    main()
