"""Shows floodmark at work: a small GPT on the CPU, and on a GPU without having one.

Records a few training steps and shows what filled the memory at the peak. Then runs the same
training on a simulated RTX 4090, or records it on the real GPU where there is one. The traces and a
page of the second one are left in `demo/`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import torch
from torch.nn import functional as F
from train_gpt import GPT, ModelConfig

FOLDER = Path(__file__).resolve().parent.parent / "demo"
STEPS = 4


def train(device: str) -> None:
    """Train without calling floodmark."""
    torch.manual_seed(0)
    # A small model is no faster with more threads, and slower on a busy machine.
    torch.set_num_threads(1)
    config = ModelConfig(vocabulary=4096, context=128, layers=4, heads=4, width=128, dropout=0.1)
    model = GPT(config).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(STEPS):
        ids = torch.randint(0, config.vocabulary, (8, config.context + 1), device=device)
        logits = model(ids[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def shown(path: Path) -> str:
    """A path relative to the current folder."""
    return str(path.relative_to(FOLDER.parent))


def floodmark(*words: str) -> None:
    """Print a command, and run it."""
    print(f"\n$ floodmark {' '.join(words)}\n", flush=True)
    done = subprocess.run([sys.executable, "-m", "floodmark", *words], cwd=FOLDER.parent)
    if done.returncode:
        sys.exit(done.returncode)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--train", metavar="DEVICE", help="only train, on this device")
    args = parser.parse_args()
    if args.train:
        train(args.train)
        return
    FOLDER.mkdir(exist_ok=True)
    on_cpu, on_gpu = FOLDER / "gpt-cpu.flood", FOLDER / "gpt-gpu.flood"
    page = FOLDER / "demo.html"
    program = (shown(Path(__file__).resolve()), "--train")
    floodmark("run", "-o", shown(on_cpu), "--force", *program, "cpu")
    floodmark("report", shown(on_cpu), "--top", "10")
    if torch.cuda.is_available():
        floodmark("run", "-o", shown(on_gpu), "--force", *program, "cuda")
        floodmark("report", shown(on_gpu), "--top", "10")
    else:
        output = ("-o", shown(on_gpu), "--force")
        floodmark("estimate", "--gpu", "rtx4090", *output, *program, "cuda")
    floodmark("report", shown(on_gpu), "--by", "module", "--top", "12")
    floodmark("export", shown(on_gpu), "--to", "html", "-o", shown(page), "--force")
    print("\nAsk more of it, for example:\n")
    for words in ("--by step", "--by tensor --at end", "--by stack --top 3", "--json"):
        print(f"  .venv/bin/floodmark report {shown(on_gpu)} {words}")
    print(f"\nOpen {shown(page)} in a browser, or\n\n  .venv/bin/floodmark view {shown(on_gpu)}")


if __name__ == "__main__":
    main()
