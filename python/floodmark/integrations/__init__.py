"""floodmark inside other libraries' training loops.

One small module for each library; only importing that module imports the library. All record the
loop into a trace, and report the figures of each step while it runs.

| module | what it has | for |
|---|---|---|
| `floodmark.integrations.lightning` | `FloodmarkCallback` | `Trainer(callbacks=[…])` |
| `floodmark.integrations.transformers` | `FloodmarkCallback` | `Trainer(callbacks=[…])` |
| `floodmark.integrations.accelerate` | `FloodmarkTracker` | `Accelerator(log_with=[…])` |
| `floodmark.integrations.tensorboard` | `MemoryScalars` | a `SummaryWriter`, or a folder |
"""
