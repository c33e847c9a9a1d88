"""Ranks of a world with fake tensors: against closed forms, the phantom GPU, and a real run.

    python bench/conformance/fake_distributed.py --floodmark FOLDER

One process simulates all ranks with fake tensors; the phantom GPU needs one for each rank, and
so does the real run. Writes `fake-distributed.md` and `.json`. Exit status 1 when a closed form is
missed by a byte, or a peak by more than is allowed.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

BENCH = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(BENCH))

import machine  # noqa: E402

#: Way, world and rank, where the categories are known.
KNOWN = [
    *(("fsdp2", world, rank) for world in (8, 64, 1024) for rank in (0, world - 1)),
    ("hsdp", 8, 0),
    ("tp", 8, 0),
    ("tp", 8, 7),
    *((way, 4, rank) for way in ("gpipe", "one_f_one_b") for rank in (0, 3)),
    ("ddp", 8, 0),
]
#: Way, world and rank that are run on the phantom GPU too.
COMPARED = [
    *((way, 8, 0) for way in ("ddp", "ddp_views", "ddp_unused", "ddp_static", "ddp_no_sync")),
    *((way, 8, 0) for way in ("fsdp2", "fsdp2_keep", "fsdp2_mixed", "hsdp", "fsdp1", "tp")),
    ("fsdp2", 1024, 1023),
    *((way, 4, rank) for way in ("gpipe", "one_f_one_b") for rank in (0, 3)),
]
#: What is run by real processes on the CPU.
REAL_WAY, REAL_WORLD = "fsdp2", 4
REAL = [(REAL_WAY, REAL_WORLD, rank, "cpu") for rank in range(REAL_WORLD)]
MOST_PHANTOM, MOST_REAL = 0.01, 0.02

#: Expandable segments, so that blocks have the sizes of tensors; no workspace of cuBLAS, which does
#: not depend on ranks.
SETTINGS = {
    "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
    "CUBLAS_WORKSPACE_CONFIG": ":0:0",
    "CUBLASLT_WORKSPACE_SIZE": "0",
}


def measure(engine: str, way: str, world: int, rank: int, device: str = "cuda") -> dict[str, Any]:
    """One rank as an estimate: peak, bytes after each step, and categories at the end."""
    import floodmark

    before = time.perf_counter()
    with (
        tempfile.TemporaryDirectory() as folder,
        floodmark.estimate(
            device, engine=engine, world=world, rank=rank, path=f"{folder}/rank.flood"
        ) as est,
    ):
        import distributed_programs as programs
        import torch

        place = torch.device(device)
        if device == "cuda":
            place = torch.device(device, int(os.environ["LOCAL_RANK"]))
            torch.cuda.set_device(place)
        steps = programs.run(way, place, lambda: est.level(str(place))[:2])
        found = {"after": steps.after, "peak": est.level(str(place))[1]}
        trace = est.trace
        rows = trace.report(by="category", at="end", device=str(place)).rows
        found["categories"] = {row["location"]: row["bytes"] for row in rows}
        found["steps"] = _steps(trace, str(place))
    return found | {"seconds": time.perf_counter() - before}


def _steps(trace: Any, device: str) -> list[tuple[int, int]]:
    """The peak and the end of each step, as the trace has them."""
    rows = trace.report(by="step", device=device).rows
    return [(row["peak"], row["end"]) for row in rows if row["step"] is not None]


def measure_all(runs: list[list[Any]]) -> list[dict[str, Any]]:
    """Many ranks, one after the other."""
    import floodmark

    # As many devices as any of them has: the library that answers for CUDA is loaded once.
    with (
        tempfile.TemporaryDirectory() as folder,
        floodmark.estimate(engine="fake", gpus=8, path=f"{folder}/first.flood"),
    ):
        pass
    return [measure("fake", *run) for run in runs]


def phantom(world: int, rank: int, ways: list[str]) -> list[dict[str, Any]]:
    """One rank on the phantom GPU, one way after the other."""
    import floodmark

    found = []
    with (
        tempfile.TemporaryDirectory() as folder,
        floodmark.estimate(engine="phantom", world=world, rank=rank, path=f"{folder}/rank.flood"),
    ):
        import distributed_programs as programs
        import torch

        place = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(place)
        for way in ways:
            gc.collect()
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
            steps = programs.run(way, place, lambda: (torch.cuda.memory_allocated(), 0))
            peak = torch.cuda.max_memory_allocated() - before
            found.append({"peak": peak, "after": [size - before for size in steps.after]})
            del steps
            programs.dist.destroy_process_group()
    return found


def play(way: str, path: str) -> dict[str, Any]:
    """A rank of a real run on the CPU, recorded."""
    import distributed_programs as programs
    import torch

    import floodmark

    torch.set_num_threads(1)
    with floodmark.trace(path):
        programs.run(way, torch.device("cpu"), lambda: (0, 0))
        programs.dist.destroy_process_group()
    return {"steps": _steps(floodmark.Trace.open(path), "cpu")}


def forms(runs: list[list[Any]]) -> list[dict[str, int]]:
    """The closed form of each rank."""
    import distributed_closed_forms

    return [distributed_closed_forms.FORMS[way](world, rank) for way, world, rank in runs]


TASKS = {"fake": measure_all, "phantom": phantom, "play": play, "forms": forms}


class Runs:
    """Starts processes."""

    def __init__(self, floodmark: str) -> None:
        self._environment = os.environ | SETTINGS | {"PYTHONPATH": floodmark}

    def one(self, task: str, *words: Any) -> Any:
        """A process for a task."""
        return self._end(self._begin(task, *words))

    def real(self, way: str, world: int, folder: str) -> list[dict[str, Any]]:
        """All ranks of a real run."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        started = []
        for rank in range(world):
            more = {"RANK": str(rank), "WORLD_SIZE": str(world), "LOCAL_RANK": str(rank)}
            more |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
            started.append(self._begin("play", way, f"{folder}/{rank}.flood", **more))
        return [self._end(process) for process in started]

    def _begin(self, *words: Any, **more: str) -> Any:
        command = [sys.executable, __file__, "--one", json.dumps(words)]
        pipe = subprocess.PIPE
        environment = self._environment | more
        return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment)

    def _end(self, process: Any) -> Any:
        out, error = process.communicate(timeout=1800)
        if process.returncode:
            raise SystemExit(f"{process.args} failed:\n{error[-3000:]}")
        return json.loads(out.splitlines()[-1])


def against_forms(fake: dict[Any, Any], known: list[Any], missed: list[str]) -> list[list[str]]:
    """Parameters, gradients and states, to the byte."""
    lines = []
    for key, form in zip(KNOWN, known, strict=True):
        way, world, rank = key
        found = fake[key]
        cells = [way, str(world), str(rank), f"{found['peak'] / 2**20:.1f}"]
        for category, size in form.items():
            got = found["categories"].get(category, 0)
            cells.append(f"{got:,}" if got == size else f"{got:,} (must be {size:,})")
            if got != size:
                missed.append(f"{key}: {category} {got:,}, must be {size:,}")
        lines.append([*cells, f"{found['seconds']:.1f}"])
    return lines


def against_phantom(runs: Runs, fake: dict[Any, Any], missed: list[str]) -> list[list[str]]:
    """The same program on torch's own host code and allocator."""
    ranks: dict[tuple[int, int], list[str]] = {}
    for way, world, rank in COMPARED:
        ranks.setdefault((world, rank), []).append(way)
    lines = []
    for (world, rank), ways in ranks.items():
        for way, other in zip(ways, runs.one("phantom", world, rank, ways), strict=True):
            own = fake[way, world, rank]
            error = own["peak"] / other["peak"] - 1
            after = own["after"][-1] - other["after"][-1]
            cells = [way, str(world), str(rank), f"{other['peak']:,}", f"{own['peak']:,}"]
            lines.append([*cells, f"{error:+.4%}", str(after)])
            print(" | ".join(lines[-1]), flush=True)
            if abs(error) > MOST_PHANTOM:
                missed.append(f"{way}, {rank} of {world}: the peak is off by {error:+.2%}")
    return lines


def against_real(runs: Runs, fake: dict[Any, Any], missed: list[str]) -> list[list[str]]:
    """The same program in as many processes as there are ranks."""
    with tempfile.TemporaryDirectory() as folder:
        real = runs.real(REAL_WAY, REAL_WORLD, folder)
    lines = []
    for rank, recorded in enumerate(real):
        found = fake[REAL_WAY, REAL_WORLD, rank, "cpu"]
        pairs = list(zip(recorded["steps"], found["steps"], strict=True))
        after = max(abs(own[1] - other[1]) for other, own in pairs)
        most = max(one[0] for one in recorded["steps"])
        own_most = max(one[0] for one in found["steps"])
        error = own_most / most - 1
        cells = [str(rank), f"{most:,}", f"{own_most:,}", f"{error:+.4%}"]
        lines.append([*cells, f"{pairs[-1][0][1]:,}", f"{pairs[-1][1][1]:,}", str(after)])
        print(" | ".join(lines[-1]), flush=True)
        if abs(error) > MOST_REAL:
            missed.append(f"rank {rank} of a real run: the peak is off by {error:+.2%}")
    return lines


def main() -> int:
    """Run all comparisons; returns the exit status."""
    parser = machine.arguments(__doc__)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--floodmark", help="where the package lies")
    args = parser.parse_args()
    if args.one:
        task, *words = json.loads(args.one)
        print(json.dumps(TASKS[task](*words)))
        return 0
    runs = Runs(str(Path(args.floodmark).resolve()))
    missed: list[str] = []
    keys = [*dict.fromkeys([*KNOWN, *COMPARED]), *REAL]
    fake = dict(zip(keys, runs.one("fake", keys), strict=True))
    tables = {
        "forms": against_forms(fake, runs.one("forms", KNOWN), missed),
        "phantom": against_phantom(runs, fake, missed),
        "real": against_real(runs, fake, missed),
    }
    return finish(args.results, tables, missed)


def finish(folder: Path | None, tables: dict[str, list[list[str]]], missed: list[str]) -> int:
    """Print and write the tables; returns the exit status."""
    heads = {
        "forms": ["way", "world", "rank", "peak, MiB", "parameters", "gradients", "states", "s"],
        "phantom": ["way", "world", "rank", "phantom's peak", "fake's peak", "error"],
        "real": ["rank", "real peak", "fake's peak", "error", "real, after", "fake's, after"],
    }
    heads["phantom"] += ["bytes off after the last step"]
    heads["real"] += ["most bytes off after a step"]
    texts = {
        "forms": "Bytes of each category, equal to the closed form of shapes and sharding",
        "phantom": "Against the phantom GPU, which runs torch's own host code and allocator",
        "real": f"Against a real run: {REAL_WAY} in {REAL_WORLD} processes with gloo on the CPU",
    }
    about = machine.describe()
    parts = [
        machine.sentence(about),
        "`make fake-distributed`: a Llama-like model of 16.8 M parameters in float32, AdamW, three "
        "steps; the last column of the first table is the time of one rank, with its share of a "
        "loaded machine. Blocks are not larger than tensors (`expandable_segments:True`), and "
        "cuBLAS keeps no workspace.",
    ]
    for name, lines in tables.items():
        parts += [f"## {texts[name]}", machine.table(heads[name], lines)]
    result = {"machine": about, "tables": tables, "missed": missed}
    verdicts = [(one, False) for one in missed]
    title = "Ranks of a world with fake tensors"
    return machine.finish("fake-distributed", title, parts, verdicts, result, folder)


if __name__ == "__main__":
    sys.exit(main())
