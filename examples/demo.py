"""Records a few training steps of a small GPT and shows what filled the memory at the peak.

On the CPU, and on a GPU: the real one, or one that is not there. The traces and a page of them are
left in `demo/`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import torch
from torch.nn import functional as F
from train_gpt import GPT, ModelConfig

import floodmark

FOLDER = Path(__file__).resolve().parent.parent / "demo"


def train(device: str, steps: int) -> None:
    """An ordinary training loop: not a word about memory."""
    torch.manual_seed(0)
    config = ModelConfig(vocabulary=4096, context=128, layers=4, heads=4, width=128, dropout=0.1)
    model = GPT(config).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(steps):
        ids = torch.randint(0, config.vocabulary, (8, config.context + 1), device=device)
        logits = model(ids[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def record(device: str, steps: int) -> Path:
    """Record the training on one device, print what filled it, and return the trace."""
    path = FOLDER / f"gpt-{device}.flood"
    path.unlink(missing_ok=True)
    print(f"Recording {steps} training steps of a small GPT on {device} …\n")
    with floodmark.trace(path) as recording:
        train(device, steps)
    peak = recording.peak("cpu" if device == "cpu" else f"{device}:0")
    print("What filled it, by line:\n")
    print(peak.by_line(top=10))
    print("By module:\n")
    print(peak.by_module(top=12))
    print("By category:\n")
    print(peak.by_category())
    return path


def estimate(steps: int) -> Path:
    """The same training on a GPU that is not there."""
    path = FOLDER / "gpt-rtx4090.flood"
    path.unlink(missing_ok=True)
    print("The same training on an RTX 4090 that is not there …\n")
    with floodmark.estimate(gpu="rtx4090", path=path) as estimated:
        train("cuda", steps)
    print(estimated.estimate)
    return path


def save_page(paths: list[Path]) -> Path:
    """All of it as a page in one file, which needs no server."""
    page = FOLDER / "demo.html"
    command = [sys.executable, "-m", "floodmark", "export", *map(str, paths)]
    subprocess.run([*command, "--to", "html", "-o", str(page), "--force"], check=True)
    return page


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    FOLDER.mkdir(exist_ok=True)
    # So small a model gains nothing from more threads, and a busy machine loses by them.
    torch.set_num_threads(1)
    has_gpu = torch.cuda.is_available()
    paths = [record("cpu", args.steps)]
    paths.append(record("cuda", args.steps) if has_gpu else estimate(args.steps))
    page = save_page(paths)
    print("Wrote:\n")
    for path in (*paths, page):
        name = path.relative_to(FOLDER.parent)
        print(f"  {name}  ({path.stat().st_size / 1024:.0f} KiB)")
    print("\nAsk more of it, for example:\n")
    name = paths[-1].relative_to(FOLDER.parent)
    for words in ("--by step", "--by tensor --at end", "--by stack --top 3", "--json"):
        print(f"  .venv/bin/floodmark report {name} {words}")
    print(f"\nLook at it: open {page.relative_to(FOLDER.parent)} in a browser, or\n")
    print(f"  .venv/bin/floodmark view {name}")


if __name__ == "__main__":
    main()
