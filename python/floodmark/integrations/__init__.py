"""floodmark inside other libraries' training loops.

One small module for each library, which is imported when the module is, and not before. All of
them record the loop into a trace, and hand on the figures of each step while it runs. Importing
this package imports none of the modules.

| module | what it has | for |
|---|---|---|
| `floodmark.integrations.lightning` | `FloodmarkCallback` | `Trainer(callbacks=[…])` |
| `floodmark.integrations.transformers` | `FloodmarkCallback` | `Trainer(callbacks=[…])` |
| `floodmark.integrations.accelerate` | `FloodmarkTracker` | `Accelerator(log_with=[…])` |
| `floodmark.integrations.tensorboard` | `MemoryScalars` | a `SummaryWriter`, or a folder |
"""
