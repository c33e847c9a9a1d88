"""Lightning's loops with our callback, and torch's own counters beside it.

Run by `run.py`, which has begun the phantom GPU. `found` is what it tells.
"""

from __future__ import annotations

import torch

import floodmark

try:
    import lightning.pytorch as pl
    from lightning.pytorch.loggers import CSVLogger
except ModuleNotFoundError:
    import pytorch_lightning as pl
    from pytorch_lightning.loggers import CSVLogger
from floodmark.integrations.lightning import FloodmarkCallback


class Model(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(256, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 16)
        )

    def training_step(self, batch, at):
        # Each step is another size, so that each has another peak.
        return self.layers(batch[0].repeat(128 * (1 + at), 1)).sum()

    def validation_step(self, batch, at):
        self.layers(batch[0].repeat(8, 1))

    def predict_step(self, batch, at):
        return self.layers(batch[0]).shape

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters())


class Hungry(Model):
    def training_step(self, batch, at):
        if at == 1:
            torch.empty(1 << 42, dtype=torch.uint8, device=self.device)
        return super().training_step(batch, at)


class Counters(pl.Callback):
    "torch's own counters, reset when a step ends. After the callback that is tested."

    def __init__(self):
        self.steps, self.validation = [], 0

    def on_train_start(self, trainer, module):
        self.batches = 0

    def on_train_batch_start(self, *_):
        if not self.steps and not self.batches:
            torch.cuda.reset_peak_memory_stats()

    def on_train_batch_end(self, trainer, *_):
        self.batches += 1
        if self.batches % trainer.accumulate_grad_batches == 0:
            self.steps.append(counters())

    def on_validation_batch_end(self, trainer, *_):
        if not trainer.sanity_checking:
            self.validation = max(self.validation, counters()[0])


def counters():
    found = [
        torch.cuda.max_memory_allocated(),
        torch.cuda.memory_allocated(),
        torch.cuda.max_memory_reserved(),
        torch.cuda.memory_reserved(),
    ]
    torch.cuda.reset_peak_memory_stats()
    return found


def trainer(name, *callbacks, **options):
    return pl.Trainer(
        accelerator="gpu",
        devices=1,
        logger=CSVLogger(".", name=name, version=""),
        callbacks=list(callbacks),
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
        max_epochs=1,
        default_root_dir=name,
        **options,
    )


def data():
    rows = torch.utils.data.TensorDataset(torch.randn(48, 256))
    return torch.utils.data.DataLoader(rows, batch_size=8)


found = {}
counted = Counters()
trainer("fit", FloodmarkCallback(every_n_steps=1), counted).fit(Model(), data(), data())
found["fit"] = counted.steps
found["validation"] = counted.validation

counted = Counters()
accumulated = FloodmarkCallback(steps=(1, 3), every_n_steps=1, summary=False)
options = {"accumulate_grad_batches": 2, "limit_train_batches": 6}
trainer("some", accumulated, counted, **options).fit(Model(), data())
found["some"] = counted.steps

trainer("alone", FloodmarkCallback(summary=False)).validate(Model(), data())
trainer("predicted", FloodmarkCallback(summary=False)).predict(Model(), data())

try:
    trainer("hungry", FloodmarkCallback()).fit(Hungry(), data())
except torch.OutOfMemoryError:
    found["hungry"] = floodmark.is_recording()


class Broken(CSVLogger):
    def log_metrics(self, *_, **__):
        raise OSError("the disk is full")


broken = trainer("broken", FloodmarkCallback(every_n_steps=1))
broken.loggers = [Broken(".", name="broken", version="")]
broken.fit(Model(), data())
found["broken"] = broken.global_step
