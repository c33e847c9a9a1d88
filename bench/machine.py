"""What a measurement was made on, and how its result is written down.

Sees: the machine, in words that anybody may read (no names of hosts or people). Writes one `.json`
with all numbers and one `.md` with the table.
"""

from __future__ import annotations

import datetime
import json
import os
import platform
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


def describe() -> dict[str, Any]:
    """The machine and the versions of what runs on it."""
    import torch

    import floodmark

    about = describe_host() | {
        "torch_threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "floodmark": floodmark.__version__,
    }
    if torch.cuda.is_available():
        about["gpu"] = torch.cuda.get_device_name(0)
        about["cuda"] = torch.version.cuda
    return about


def describe_host() -> dict[str, Any]:
    """The machine alone."""
    return {
        "date": datetime.date.today().isoformat(),
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
        "python": platform.python_version(),
    }


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def sentence(about: dict[str, Any]) -> str:
    """The machine in one line."""
    threads = about["torch_threads"]
    word = "thread" if threads == 1 else "threads"
    gpu = f"{about['gpu']} (CUDA {about['cuda']}), " if "gpu" in about else ""
    return (
        f"{gpu}{about['cpu']}, {about['cores']} cores ({threads} torch {word}), "
        f"Python {about['python']}, torch {about['torch']}, "
        f"floodmark {about['floodmark']}, {about['date']}"
    )


def table(head: list[str], rows: list[list[str]]) -> str:
    """A Markdown table; the first column is text, the others are numbers."""
    rule = ["---"] + ["---:"] * (len(head) - 1)
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, rule, *rows])


def write(name: str, result: dict[str, Any], text: str, folder: Path | None = None) -> None:
    """Write `name.json` and `name.md`, and say so."""
    folder = folder or RESULTS
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n")
    (folder / f"{name}.md").write_text(text.rstrip() + "\n")
    print(f"\nwrote {folder / name}.md and .json")
