"""The `Trainer` of transformers with our callback, and torch's own counters beside it.

Run by `run.py`, which has begun the phantom GPU. `found` is what it tells.
"""

from __future__ import annotations

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

import floodmark
from floodmark.integrations.transformers import FloodmarkCallback


def model():
    return GPT2LMHeadModel(
        GPT2Config(n_layer=1, n_head=2, n_embd=64, vocab_size=256, n_positions=64)
    )


def data(lengths):
    return [{"input_ids": [1] * length, "labels": [1] * length} for length in lengths]


class Hungry(Trainer):
    def training_step(self, *args, **kwargs):
        if self.state.global_step == 1:
            torch.empty(1 << 42, dtype=torch.uint8, device="cuda")
        return super().training_step(*args, **kwargs)


class Counters(TrainerCallback):
    "torch's own counters, reset when a step ends."

    def __init__(self):
        self.steps, self.batches, self.reported = [], [], []

    def on_step_begin(self, args, state, control, **_):
        if not self.steps:
            torch.cuda.reset_peak_memory_stats()

    def on_step_end(self, args, state, control, **_):
        self.steps.append(counters())

    def on_prediction_step(self, args, state, control, **_):
        self.batches.append(counters())

    def on_log(self, args, state, control, logs, **_):
        self.reported.append(dict(logs))


def counters():
    found = [
        torch.cuda.max_memory_allocated(),
        torch.cuda.memory_allocated(),
        torch.cuda.max_memory_reserved(),
        torch.cuda.memory_reserved(),
    ]
    torch.cuda.reset_peak_memory_stats()
    return found


def trainer(name, callbacks, kind=Trainer, **options):
    arguments = TrainingArguments(
        output_dir=name,
        per_device_train_batch_size=1,
        per_device_eval_batch_size=1,
        max_steps=4,
        logging_steps=1,
        report_to=[],
        disable_tqdm=True,
        save_strategy="no",
        train_sampling_strategy="sequential",
        **options,
    )
    return kind(
        model=model(),
        args=arguments,
        callbacks=callbacks,
        train_dataset=data([8, 16, 24, 32]),
        eval_dataset=data([8, 64]),
    )


found = {}
counted = Counters()
one = trainer("one", [counted], eval_strategy="steps", eval_steps=4)
FloodmarkCallback().attach(one)
one.train()
found["one"] = {
    "steps": counted.steps,
    "batches": counted.batches,
    "history": one.state.log_history,
    "reported": counted.reported,
}

counted = Counters()
callbacks = [FloodmarkCallback(summary=False), counted]
rare = trainer("rare", callbacks, gradient_accumulation_steps=2)
rare.args.logging_steps = rare.state.logging_steps = 2
rare.train()
found["rare"] = {"steps": counted.steps, "history": rare.state.log_history}

some = trainer("some", [FloodmarkCallback(steps=(1, 3), summary=False)])
some.train()
found["some"] = some.state.log_history

with floodmark.trace("alone.flood"):
    trainer("alone", [FloodmarkCallback()]).evaluate()


def run_out():
    """Fails as a program fails, with an exception that is not caught."""
    trainer("hungry", [FloodmarkCallback()], Hungry).train()
