"""`python -m floodmark.estimate.model_program FILE FACTORY`: moves one model to the GPU.

The program of the tool `estimate_model`: FACTORY is a function of FILE that takes no arguments and
returns a `torch.nn.Module`. It runs under an estimate, on which it does not depend.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

#: The model, which is live at the end.
model: Any = None


def main() -> None:
    """Put the model on the GPU."""
    import torch

    global model
    file, factory = sys.argv[1:]
    made = getattr(_module_of(file), factory)()
    if not isinstance(made, torch.nn.Module):
        raise TypeError(f"`{factory}` returns a {type(made).__name__}, not a `torch.nn.Module`")
    model = made.to("cuda")


def _module_of(file: str) -> ModuleType:
    """Import a file as a module; it may import files of its folder, like a script."""
    path = Path(file).resolve()
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"`{file}` is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    main()
