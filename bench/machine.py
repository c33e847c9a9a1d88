"""What the scripts of `bench` share: arguments, the machine, timing, and writing results.

The description of the machine has no names of hosts or people. A result is one `.json` with all
numbers and one `.md` with the tables.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

#: A sentence, and whether the budget in it is met.
Verdict = tuple[str, bool]


def arguments(doc: str | None) -> argparse.ArgumentParser:
    """A parser with the first line of a script's docstring, and `--results`."""
    parser = argparse.ArgumentParser(description=(doc or "").splitlines()[0])
    parser.add_argument("--results", type=Path, help="folder to write the results to")
    return parser


def seconds(work: Callable[[], object]) -> float:
    """The duration of a call, without freeing its result."""
    begin = time.perf_counter()
    result = work()
    duration = time.perf_counter() - begin
    del result
    return duration


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
    """The machine without the versions of torch and floodmark."""
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


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, texts: bool = False) -> str:
    """A Markdown table. Cells after the first are right-aligned, unless `texts` is true."""
    rule = ["---"] + ["---" if texts else "---:"] * (len(head) - 1)
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, rule, *rows])


def write(name: str, result: dict[str, Any] | None, text: str, folder: Path | None) -> None:
    """Write `name.md`, and `name.json` if there is a result; nothing without a folder."""
    if folder is None:
        return
    folder.mkdir(parents=True, exist_ok=True)
    if result is not None:
        (folder / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n")
    (folder / f"{name}.md").write_text(text.rstrip() + "\n")
    print(f"\nwrote {folder / name}.md")


def finish(
    name: str,
    title: str,
    parts: list[str],
    verdicts: Sequence[Verdict],
    result: dict[str, Any] | None,
    folder: Path | None,
) -> int:
    """Print a page of `parts` and verdicts, and write it to a folder, if one is given.

    Returns the exit status: 1 if a budget is missed.
    """
    listed = [f"- {what}: {'met' if met else 'MISSED'}" for what, met in verdicts]
    text = "\n\n".join([f"# {title}", *parts, *(["\n".join(listed)] if listed else [])])
    print(text)
    write(name, result, text, folder)
    return 0 if all(met for _, met in verdicts) else 1
