"""The documents that `floodmark.compat` answers to: their code blocks, as programs."""

from __future__ import annotations

import re
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "fixtures" / "seeds"

#: A phantom GPU, so that torch's own caching allocator counts beside us.
ON_A_PHANTOM = """
import floodmark
with floodmark.phantom("h200"):
    import torch
"""
ON_THE_CPU = "import torch\n"


def blocks(name: str, language: str = "") -> list[str]:
    """The fenced blocks of a document, in order; with a language, those of it."""
    text = (FOLDER / f"{name}.txt").read_text()
    found = re.findall(r"^ *```[ ]*(\w*)\n(.*?)^ *```$", text, re.MULTILINE | re.DOTALL)
    return [code for kind, code in found if not language or kind.lower() == language]


def without_cuda(code: str) -> str:
    """The same program where there is no CUDA."""
    return (
        code.replace(".cuda()", "")
        .replace("torch.cuda.synchronize()", "None")
        .replace('"cuda:0"', '"cpu"')
    )
