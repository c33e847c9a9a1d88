"""Records a few training steps of a small GPT and shows what filled the memory at the peak.

On the CPU, and on CUDA where there is one. The traces are left in `demo/`.
"""

from __future__ import annotations

import argparse
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


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    FOLDER.mkdir(exist_ok=True)
    # So small a model gains nothing from more threads, and a busy machine loses by them.
    torch.set_num_threads(1)
    devices = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
    paths = [record(device, args.steps) for device in devices]
    print("Wrote:\n")
    for path in paths:
        name = path.relative_to(FOLDER.parent)
        print(f"  {name}  ({path.stat().st_size / 1024:.0f} KiB)")
    print("\nAsk more of it, for example:\n")
    name = paths[-1].relative_to(FOLDER.parent)
    for words in ("--by step", "--by tensor --at end", "--by stack --top 3", "--json"):
        print(f"  .venv/bin/floodmark report {name} {words}")


if __name__ == "__main__":
    main()
