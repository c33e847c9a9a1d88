"""A loop of accelerate's with our tracker, and torch's own counters beside it.

Run by `run.py`, which has begun the phantom GPU. `found` is what it tells.
"""

from __future__ import annotations

import torch
from accelerate import Accelerator
from accelerate.tracking import GeneralTracker

import floodmark
from floodmark.integrations.accelerate import FloodmarkTracker


class Others(GeneralTracker):
    name = "others"
    requires_logging_directory = False
    tracker = None

    def __init__(self):
        super().__init__()
        self.values = []

    def log(self, values, step=None, **_):
        self.values.append(dict(values))


def counters():
    found = [
        torch.cuda.max_memory_allocated(),
        torch.cuda.memory_allocated(),
        torch.cuda.max_memory_reserved(),
        torch.cuda.memory_reserved(),
    ]
    torch.cuda.reset_peak_memory_stats()
    return found


memory, others = FloodmarkTracker("run/memory.flood"), Others()
accelerator = Accelerator(log_with=[memory, others], gradient_accumulation_steps=2)
accelerator.init_trackers("one", config={"width": 512})
model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 8))
optimizer = torch.optim.AdamW(model.parameters())
rows = torch.utils.data.TensorDataset(torch.randn(64, 256))
data = torch.utils.data.DataLoader(rows, batch_size=8)
model, optimizer, data = accelerator.prepare(model, optimizer, data)
torch.cuda.reset_peak_memory_stats()
found = {"steps": []}
for number, (batch,) in enumerate(data):
    with accelerator.accumulate(model):
        accelerator.backward(model(batch.repeat(256 * (number + 1), 1)).sum())
        optimizer.step()
        if accelerator.sync_gradients:
            found["steps"].append(counters())
            step = number // 2
            accelerator.log({"number": number, **memory.metrics()}, step=step)
        optimizer.zero_grad()
accelerator.end_training()
found["others"] = others.values
found["is_over"] = not floodmark.is_recording()
found["peak"] = memory.tracker.peak("cuda:0").by_line().allocated

alone = FloodmarkTracker("alone/memory.flood", summary=False)
accelerator = Accelerator(log_with=[alone])
accelerator.init_trackers("two")
found["alone"] = []
counters()
for number in range(3):
    with torch.no_grad():
        model(torch.randn(64 * (3 - number), 256, device="cuda"))
    found["alone"].append(counters())
    accelerator.log({}, step=number)
accelerator.end_training()
