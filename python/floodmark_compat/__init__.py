"""Other tools' names for what floodmark measures.

One small module for each tool: a program that used the tool changes the line that imports it.
Names, arguments, defaults, returned values and files are those that the tool documents, and so is
what it prints where its documentation shows that. The numbers are floodmark's, from the one
recorder. Each module's docstring lists what differs; `docs/compat.md` has every documented feature.
`floodmark` knows nothing of this package, and importing it imports none of the modules.

| module | instead of |
|---|---|
| `floodmark_compat.pytorch_mem_tracer` | `import pytorch_mem_tracer` |
| `floodmark_compat.pytorch_mem_profiler` | `from pytorch_mem_profiler import *` |
| `floodmark_compat.memory_tracker` | `torch.distributed._tools.memory_tracker` |
| `floodmark_compat.gpu_optimizer` | `from gpu_optimizer import MemoryTracer` |
| `floodmark_compat.memory_profiler` | `from memory_profiler import MemoryTracer` |
"""
