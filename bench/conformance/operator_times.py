"""Measures the operators of training steps on a GPU, for the shares in `roofline.rs`.

    python bench/conformance/operator_times.py FOLDER [--seconds N] [--only MODEL ...]
    python bench/conformance/operator_times.py --table FILE

Writes `operator-times.json` to FOLDER: for each model of `bench/programs/plan`, what its steps
take, the kernels of a step, and the operations, bytes and time of each call of an operator.
`--seconds` is the limit of all; what does not fit into it is left out. Needs torch with CUDA, and
floodmark. `unseen.py` is left out: rules are checked against it.
"""

from __future__ import annotations

import argparse
import collections
import gc
import importlib
import json
import os
import signal
import statistics
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")  # so that processes can be forked
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

PROGRAMS = Path(__file__).resolve().parents[1] / "programs" / "plan"
WARM, TIMED = 5, 8
STEPS = WARM + TIMED + 5
#: Seconds for one model.
LIMIT = 45
#: Bytes and operations of a call whose beginning and end do not count.
LARGE_BYTES, LARGE_FLOPS = 64 << 20, 20_000_000_000
#: Bytes of a call that takes as long as an empty one.
SMALL_BYTES = 256 << 10


def programs() -> dict[str, Callable[[int], None]]:
    """The models that rules are fitted to."""
    sys.path.insert(0, str(PROGRAMS))
    found = {}
    for name in ("train_model", "zoo"):
        found |= importlib.import_module(name).MODELS
    return found


class Calls:
    """The calls of operators in one step, each with the time of its kernels."""

    def __init__(self) -> None:
        #: The kind, data type, operations, bytes and microseconds of each call that was counted.
        self.rows: list[list[Any]] = []
        #: The position in `rows` of each call that the profile has.
        self._positions: list[int | None] = []

    def mode(self) -> Any:
        """A mode that counts as a try of a plan does, and marks each call in the profile."""
        import torch

        from floodmark.estimate import operator_cost

        calls = self

        class Marking(operator_cost._mode_class(torch, self._count)):  # type: ignore[misc]
            def __torch_dispatch__(
                self, func: Any, types: Any, args: Any = (), kwargs: Any = None
            ) -> Any:
                before = len(calls.rows)
                with torch.profiler.record_function(f"call#{len(calls._positions)}"):
                    result = super().__torch_dispatch__(func, types, args, kwargs)
                calls._positions.append(before if len(calls.rows) > before else None)
                return result

        return Marking()

    def _count(self, *amounts: object) -> None:
        self.rows.append([*amounts, 0.0])

    def read(self, events: Any) -> None:
        """Add the time of the kernels that the profile has for each call."""
        for event in events:
            if event.name.startswith("call#") and str(event.device_type).endswith("CPU"):
                position = self._positions[int(event.name.removeprefix("call#"))]
                if position is not None:
                    self.rows[position][-1] += sum(kernel_times(event))


#: Ranges of the profile that are no kernels.
ANNOTATIONS = ("call#", "Optimizer.", "ProfilerStep")


def kernel_times(event: Any) -> list[float]:
    """The times of the kernels of an event of the profile, and of those inside it."""
    own = [one.duration for one in event.kernels if not one.name.startswith(ANNOTATIONS)]
    return own + [time for child in event.cpu_children for time in kernel_times(child)]


class Watch:
    """Times steps, then profiles one; ends the process."""

    def __init__(self, file: Path) -> None:
        from torch.optim import optimizer as optimizers

        self._file = file
        self._step = 0
        self._timed: list[tuple[float, float]] = []
        self._calls = Calls()
        self._mode: Any = None
        self._profile: Any = None
        self._began = 0.0
        optimizers.register_optimizer_step_post_hook(self._step_ended)

    def _step_ended(self, *_: object) -> None:
        import torch

        issued = time.perf_counter() - self._began
        torch.cuda.synchronize()
        seconds = time.perf_counter() - self._began
        self._step += 1
        if WARM < self._step <= WARM + TIMED:
            self._timed.append((seconds, issued))
        after = self._step - WARM - TIMED
        if after == 0:
            gc.disable()  # A collection while the profile is read could end the process.
            self._begin_profile(torch)
        elif after == 1:  # The first profile also starts the tracer of CUDA.
            self._profile.__exit__(None, None, None)
            self._begin_profile(torch)
            self._mode = self._calls.mode()
            self._mode.__enter__()
        elif after == 2:
            self._mode.__exit__(None, None, None)
            self._profile.__exit__(None, None, None)
            self._calls.read(self._profile.events())
            self._file.write_text(
                json.dumps(
                    {
                        "seconds": statistics.median(seconds for seconds, _ in self._timed),
                        "issued_seconds": statistics.median(issued for _, issued in self._timed),
                        "calls": self._calls.rows,
                    }
                )
            )
            sys.stdout.flush()
            os._exit(0)
        self._began = time.perf_counter()

    def _begin_profile(self, torch: Any) -> None:
        kinds = torch.profiler.ProfilerActivity
        self._profile = torch.profiler.profile(activities=[kinds.CPU, kinds.CUDA])
        self._profile.__enter__()


def in_a_fork(file: Path, call: Callable[[], None], limit: float) -> Any:
    """What a fork of this process writes to a file, or the end of its output."""
    child = os.fork()
    if child == 0:
        log = os.open(file.with_suffix(".log"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(log, 1)
        os.dup2(log, 2)
        try:
            call()
        except BaseException:
            traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    ends = time.monotonic() + limit
    while time.monotonic() < ends:
        if os.waitpid(child, os.WNOHANG)[0]:
            break
        time.sleep(0.02)
    else:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return "took too long"
    if file.exists():
        return json.loads(file.read_text())
    return file.with_suffix(".log").read_text()[-600:]


def measure_all(folder: Path, seconds: float, only: list[str]) -> None:
    """Measure all models, one after the other."""
    began = time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    parts = Path(tempfile.mkdtemp())
    # What models import, without CUDA.
    models = programs()
    importlib.import_module("floodmark.estimate.operator_cost")
    found: dict[str, Any] = {}
    for name, train in models.items():
        left = seconds - (time.monotonic() - began)
        if (only and name not in only) or left < 10:
            print(f"left out: {name}", flush=True)
            continue
        file = parts / f"{name}.json"

        def measured(train: Callable[[int], None] = train, file: Path = file) -> None:
            import torch

            torch.manual_seed(0)
            Watch(file)
            train(STEPS)

        found[name] = in_a_fork(file, measured, min(LIMIT, left))
        result = found[name]
        text = result if isinstance(result, str) else f"{1e3 * result['seconds']:.1f} ms"
        print(f"{time.monotonic() - began:5.0f} s {name}: {text}", flush=True)
        (folder / "operator-times.json").write_text(json.dumps(found))


def rates() -> dict[str, int]:
    """The measured rates of the H200, as its profile has them."""
    import re

    text = (PROGRAMS.parents[2] / "crates/floodmark-profiles/profiles/h200.toml").read_text()
    return {
        key: int(value.replace("_", "")) for key, value in re.findall(r"(\w+) = ([\d_]+)", text)
    }


def print_table(file: Path) -> None:
    """What each kind of operator reaches, as Markdown."""
    found = {name: one for name, one in json.loads(file.read_text()).items() if "calls" in one}
    rate = rates()
    kinds = collections.defaultdict(list)
    for one in found.values():
        for kind, dtype, flops, moved, micros in one["calls"]:
            if micros:
                bits = {"bfloat16": "16 bits", "float16": "16 bits", "tf32": "TF32"}
                kinds[kind, bits.get(dtype, "32 bits")].append((flops, moved, micros))
    print("| kind | data type | calls | time of all, ms | operations, 10⁹ a second | "
          "bytes, share of the memory's rate | small calls, empty kernels |")  # fmt: skip
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: |")
    for (kind, dtype), calls in sorted(kinds.items(), key=lambda one: -sum(c[2] for c in one[1])):
        heavy = [one for one in calls if one[0] >= LARGE_FLOPS]
        wide = [one for one in calls if one[1] >= LARGE_BYTES and one not in heavy]
        small = [one[2] for one in calls if one[1] <= SMALL_BYTES and not one[0]]
        flops = f"{rate_of(heavy, 0) * 1e-3:,.0f}" if heavy else ""
        share = f"{rate_of(wide, 1) / rate['memory_mb_per_s']:.2f}" if wide else ""
        empty = f"{statistics.median(small) * 1e3 / rate['kernel_nanos']:.1f}" if small else ""
        total = sum(one[2] for one in calls) / 1e3
        cells = (kind, dtype, f"{len(calls):,}", f"{total:,.1f}", flops, share, empty)
        print(f"| {' | '.join(cells)} |")
    print("\n| model | kernels of a step, ms | host, ms | step, ms |\n| --- | ---: | ---: | ---: |")
    for name, one in found.items():
        kernels = sum(call[-1] for call in one["calls"]) / 1e3
        cells = (f"{ms:.1f}" for ms in (kernels, 1e3 * one["issued_seconds"], 1e3 * one["seconds"]))
        print(f"| {name} | {' | '.join(cells)} |")


def rate_of(calls: list[tuple[int, int, float]], amount: int) -> float:
    """An amount of calls, by their microseconds."""
    return sum(one[amount] for one in calls) / max(1e-9, sum(one[2] for one in calls))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--table", type=Path, metavar="FILE", help="print what was measured")
    args = parser.parse_args()
    if args.table:
        print_table(args.table)
    elif args.folder:
        measure_all(args.folder, args.seconds, args.only)
    else:
        parser.error("a folder or `--table` is needed")


if __name__ == "__main__":
    main()
