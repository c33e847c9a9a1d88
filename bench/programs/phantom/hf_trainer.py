"""transformers' Trainer: GPT-2 in bfloat16 on made-up text."""

import tempfile

import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments


class Text(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        ids = torch.randint(0, 50257, (512,), generator=torch.Generator().manual_seed(index))
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids}


def main():
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            per_device_train_batch_size=8,
            max_steps=4,
            bf16=True,
            logging_steps=1,
            save_strategy="no",
            report_to=[],
            dataloader_num_workers=1,
        )
        trainer = Trainer(GPT2LMHeadModel(GPT2Config()), arguments, train_dataset=Text())
        trainer.train()


if __name__ == "__main__":
    main()
