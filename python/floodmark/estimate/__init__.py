"""Estimates: programs on a simulated GPU.

| package | what it has |
|---|---|
| `device` | the phantom's library in this process, and the GPU that it simulates |
| `phantom` | the engine that loads a simulated CUDA device below torch |
| `fake` | the engine of fake tensors: shapes without data |
| `values` | values that a program reads: computed on the host, given by the user, or assumed |

`floodmark.estimate` is the class in `context_manager`, which has the name of this package: write
`from floodmark.estimate import fake`, not `floodmark.estimate.fake`. The public names are those of
`floodmark`; modules in this package may change.
"""
