"""accelerate: a loop of one's own with BERT, bfloat16 and accumulated gradients."""

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset
from transformers import BertConfig, BertForSequenceClassification, get_linear_schedule_with_warmup


def main():
    accelerator = Accelerator(mixed_precision="bf16", gradient_accumulation_steps=2)
    model = BertForSequenceClassification(BertConfig(num_labels=4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5)
    data = TensorDataset(torch.randint(0, 30522, (64, 256)), torch.randint(0, 4, (64,)))
    loader = DataLoader(data, batch_size=8, shuffle=True)
    schedule = get_linear_schedule_with_warmup(optimizer, 2, 8)
    model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)
    model.train()
    for ids, labels in loader:
        with accelerator.accumulate(model):
            loss = model(input_ids=ids, labels=labels).loss
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
    losses = accelerator.gather(loss.detach())
    accelerator.print("loss", losses.mean().item())


if __name__ == "__main__":
    main()
