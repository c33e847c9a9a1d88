"""What a table for every step costs: `pytorch_mem_profiler` with `print_period=1`.

Plain and profiled steps of one model take turns in one process, so that a busy machine slows both.
A profiled step includes `record_stats`, which prints the table. The ratio is that of the medians.

    python bench/profiled_step.py [--steps 60] [--results FOLDER]
"""

from __future__ import annotations

import contextlib
import io
import statistics
import sys
from collections.abc import Callable

import machine
import torch
from torch import nn

from floodmark_compat.pytorch_mem_profiler import memory_profiler

MOST_RATIO = 1.2


def network() -> nn.Module:
    """Twelve layers: a step of about 20 ms on one core."""
    torch.manual_seed(0)
    layers: list[nn.Module] = []
    for _ in range(12):
        layers += [nn.Linear(512, 512), nn.ReLU()]
    return nn.Sequential(*layers)


def profiled_turn(model: nn.Module, step: Callable[[], None], count: int) -> list[float]:
    """The times of some steps with a table each; one more step comes before them."""
    profiler = memory_profiler(model)

    def profiled_step() -> None:
        step()
        profiler.record_stats()

    profiled_step()
    return [machine.seconds(profiled_step) for _ in range(count)]


def measured(steps: int) -> tuple[list[float], list[float]]:
    """The times of plain and of profiled steps."""
    torch.set_num_threads(1)
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batch = torch.randn(256, 512)

    def step() -> None:
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()

    plain: list[float] = []
    profiled: list[float] = []
    for count in [3] + [5] * (steps // 5):
        # Alternate both; the first turns are a warm-up.
        turn = [machine.seconds(step) for _ in range(count)]
        with contextlib.redirect_stdout(io.StringIO()):
            traced = profiled_turn(model, step, count)
        if count > 3:
            plain += turn
            profiled += traced
    return plain, profiled


def main() -> int:
    parser = machine.arguments(__doc__)
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()
    plain, profiled = measured(args.steps)
    ratio = statistics.median(profiled) / statistics.median(plain)
    rows = [
        [name, f"{statistics.median(times) * 1e3:.2f}", f"{min(times) * 1e3:.2f}"]
        for name, times in (("plain", plain), ("`print_period=1`", profiled))
    ]
    about = machine.describe()
    parts = [machine.sentence(about), machine.table(["step", "median, ms", "least, ms"], rows)]
    what = f"a profiled step takes {ratio:.2f} × a plain one (at most {MOST_RATIO} ×)"
    verdicts = [(what, ratio <= MOST_RATIO)]
    result = {"machine": about, "plain_s": plain, "profiled_s": profiled, "ratio": ratio}
    title = "A table for every step"
    return machine.finish("profiled-step", title, parts, verdicts, result, args.results)


if __name__ == "__main__":
    sys.exit(main())
