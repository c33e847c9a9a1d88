"""PyTorch Lightning: a small network, fitted and validated."""

import tempfile

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Classifier(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Flatten(), nn.Linear(3 * 64 * 64, 4096), nn.ReLU(), nn.Linear(4096, 10)
        )

    def training_step(self, batch, _index):
        pictures, labels = batch
        loss = nn.functional.cross_entropy(self.net(pictures), labels)
        self.log("loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch, _index):
        pictures, labels = batch
        self.log("accuracy", (self.net(pictures).argmax(1) == labels).float().mean())

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


def main():
    data = TensorDataset(torch.randn(512, 3, 64, 64), torch.randint(0, 10, (512,)))
    with tempfile.TemporaryDirectory() as folder:
        trainer = lightning.Trainer(
            accelerator="gpu",
            devices=1,
            precision="bf16-mixed",
            max_epochs=1,
            logger=False,
            default_root_dir=folder,
            enable_checkpointing=True,
        )
        trainer.fit(Classifier(), DataLoader(data, batch_size=64), DataLoader(data, batch_size=64))


if __name__ == "__main__":
    main()
