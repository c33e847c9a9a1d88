"""Compares plans with those of torch's own solver (`torch.distributed._tools.sac_ilp`), on a GPU.

    floodmark estimate --gpu h200 bench/conformance/plan_against_torch.py --solve FOLDER
    python bench/conformance/plan_against_torch.py --run FOLDER             # on the GPU
    python bench/conformance/plan_against_torch.py --table FOLDER           # Markdown, from both

`FOLDER` has the plans that `plan_check.py --plan` wrote. `--solve` gives torch's solver the same
limit, less the optimizer's states, which it does not count, and writes `MODEL.torch.json`: the
modules that it checkpoints, and which of their operators it keeps. `--run` runs each model so on
the GPU, and writes `MODEL.torch-run.json`. Torch's solver needs `pulp` and `pwlf`.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import plan_table
import torch
from torch import nn
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "bench/programs/plan/train_model.py"
#: The Trainer of transformers has its loop inside, which torch's trackers cannot be put around.
MODELS = ("llama", "vit", "unet", "bert")
TIMED_STEPS = 12
#: What `nvidia-smi` says on an H200, in MHz.
H200_CLOCKS = {"clocks.max.sm": 1980, "clocks.max.memory": 3201}


def program() -> Any:
    """The script that trains the models, as a module."""
    spec = importlib.util.spec_from_file_location("train_model", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def taken_apart(name: str) -> tuple[nn.Module, Callable[[], torch.Tensor]]:
    """A model and a function that computes its loss, without the loop around them."""
    script, found = program(), []

    def loop(model: nn.Module, _: int, loss_of: Any, *, autocast: bool = False) -> None:
        def loss() -> torch.Tensor:
            with torch.autocast("cuda", dtype=torch.bfloat16, enabled=autocast):
                result: torch.Tensor = loss_of()
            return result

        found.append((model.train(), loss))

    script.loop = loop
    script.MODELS[name](0)
    return found[0]


def solve(name: str, folder: Path) -> None:
    """Ask torch's solver for a plan that meets the same limit."""
    import triton.testing
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.distributed._tools import runtime_estimator
    from torch.distributed._tools.ilp_utils import aggregate_stats, parse_module_info
    from torch.distributed._tools.mem_tracker import MemTracker
    from torch.distributed._tools.runtime_estimator import RuntimeEstimator
    from torch.distributed._tools.sac_estimator import SACEstimator
    from torch.distributed._tools.sac_ilp import (
        get_optimal_checkpointing_policy_per_module,
        sac_milp,
    )

    # A simulated GPU has no `nvidia-smi`, from which torch's solver reads the clock.
    triton.testing.nvsmi = lambda attributes: [H200_CLOCKS[each] for each in attributes]
    # Its costs do not support fused attention in bf16, which also returns fp32.
    counted = runtime_estimator.get_compute_time

    def compute_time(function: Any, args: Any, kwargs: Any, out: Any, dtypes: set[Any]) -> Any:
        half = {torch.bfloat16} if torch.bfloat16 in dtypes else dtypes
        return counted(function, args, kwargs, out, half)

    runtime_estimator.get_compute_time = compute_time
    ours = plan_table.stored_in(folder, f"{name}-0.60")("")
    device = torch.device("cuda", torch.cuda.current_device())
    mode = "operator-level-cost-model"
    began = time.monotonic()
    with FakeTensorMode():
        # Fake parameters cannot be converted (`Couldn't swap …`): they are made as they will be.
        with torch.device("cuda"), mock.patch.object(nn.Module, "to", lambda module, *_: module):
            torch.set_default_dtype(torch.bfloat16 if name == "llama" else torch.float32)
            model, loss_of = taken_apart(name)
            torch.set_default_dtype(torch.float32)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
        memory, runtime, selective = MemTracker(), RuntimeEstimator(), SACEstimator()
        memory.track_external(model, optimizer)
        with memory:
            for step in range(2):
                loss_of().backward()
                optimizer.step()
                optimizer.zero_grad()
                if step == 0:
                    memory.reset_mod_stats()
        with runtime(estimate_mode_type=mode):
            loss_of().backward()
        with selective(estimate_mode_type=mode):
            loss = loss_of()
        loss.backward()
        states = sum(
            value.numel() * value.element_size()
            for state in optimizer.state.values()
            for value in state.values()
            if isinstance(value, torch.Tensor)
        )
        graph = parse_module_info(aggregate_stats(model, memory, runtime, selective, device))
    unchanged = ours["unchanged"]
    limit = ours["capacity"] - (unchanged["needed"] - unchanged["peak_reserved"]) - states
    decisions, recomputed_ms, peak = sac_milp(graph, memory_budget=limit / (1 << 30))
    kept: dict[str, list[tuple[str, int]]] = {}
    for module, discarded in decisions.items():
        stats = selective.sac_mod_stats[module]
        choice = get_optimal_checkpointing_policy_per_module(stats, 1 - discarded)
        kept[module] = list(zip(stats.func_names, choice, strict=False))
    answer = {
        "limit": limit + states,
        "states": states,
        "discarded": decisions,
        "kept": kept,
        "predicted_peak": peak + states if peak >= 0 else None,
        "recomputed_ms": recomputed_ms,
        "seconds": round(time.monotonic() - began, 1),
    }
    plan_table.store(folder, name, ".torch", answer)
    print(f"{name}: {len(decisions)} modules, {answer['predicted_peak']} bytes", flush=True)


def checkpointed(module: nn.Module, kept: list[tuple[str, int]]) -> None:
    """Checkpoint the module's forward; operators that the solver keeps are not computed again."""
    choices: dict[str, list[int]] = {}
    for operator, choice in kept:
        choices.setdefault(operator, []).append(choice)
    forward = module.forward

    def contexts() -> Any:
        seen: Counter[tuple[bool, str]] = Counter()

        def policy(ctx: Any, function: Any, *_: Any, **__: Any) -> CheckpointPolicy:
            operator = function._overloadpacket.__name__
            at = seen[ctx.is_recompute, operator]
            seen[ctx.is_recompute, operator] += 1
            of = choices.get(operator, [])
            is_kept = at < len(of) and of[at] == 1
            return CheckpointPolicy.MUST_SAVE if is_kept else CheckpointPolicy.MUST_RECOMPUTE

        return create_selective_checkpoint_contexts(policy)

    def changed(*args: Any, **kwargs: Any) -> Any:
        return checkpoint(forward, *args, use_reentrant=False, context_fn=contexts, **kwargs)

    module.forward = changed  # type: ignore[method-assign]


def run(name: str, folder: Path) -> None:
    """Run a model with the plan of torch's solver."""
    answer = plan_table.stored_in(folder, name)(".torch")
    if answer is None or answer["predicted_peak"] is None:
        print(f"{name}: torch's solver found no plan")
        return
    torch.manual_seed(0)
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    model, loss_of = taken_apart(name)
    for module, kept in answer["kept"].items():
        # Its names begin with the class of the model.
        checkpointed(model.get_submodule(module.partition(".")[2]), kept)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    seconds = []
    for _ in range(TIMED_STEPS):
        began = time.perf_counter()
        optimizer.zero_grad()
        loss_of().backward()
        optimizer.step()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - began)
    measured = {
        "peak_allocated": torch.cuda.max_memory_allocated(),
        "peak_reserved": torch.cuda.max_memory_reserved(),
        "seconds": statistics.median(seconds[2:]),
    }
    plan_table.store(folder, name, ".torch-run", measured)
    print(f"{name}: {json.dumps(measured)}", flush=True)


HEAD = [
    "limit, MiB",
    "planned by",
    "plan",
    "allocated, predicted / measured, MiB",
    "reserved, measured, MiB",
    "step time",
]


def rows_of(stored: plan_table.Stored) -> list[list[str]]:
    """Both plans of a model."""
    ours, solver, measured = stored(""), stored(".torch"), stored(".run")
    if solver is None or measured is None or ours["plan"] is None:
        return []
    unchanged = measured["unchanged"]["seconds"]
    context = ours["unchanged"]["needed"] - ours["unchanged"]["peak_reserved"]
    limit = plan_table.mib(ours["capacity"] - context)
    changes = plan_table.named(ours["plan"]["changes"])
    cells = cells_of(ours["plan"]["peak_allocated"], measured["plan"], unchanged)
    rows = [[limit, "floodmark", changes, *cells]]
    if "failed" in solver:
        rows.append([limit, "torch", f"fails: `{solver['failed']}`"])
    else:
        cells = cells_of(solver["predicted_peak"], stored(".torch-run"), unchanged)
        rows.append([limit, "torch", f"{len(solver['discarded'])} modules in part", *cells])
    return rows


def cells_of(predicted: int | None, measured: dict[str, Any] | None, unchanged: float) -> list[str]:
    """The cells of one plan."""
    expected = "none" if predicted is None else plan_table.mib(predicted)
    if measured is None:
        return [f"{expected} / not run"]
    return [
        f"{expected} / {plan_table.mib(measured['peak_allocated'])}",
        plan_table.mib(measured["peak_reserved"]),
        plan_table.multiple(measured["seconds"] / unchanged),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--solve", type=Path, metavar="FOLDER", help="ask torch's solver")
    parser.add_argument("--run", type=Path, metavar="FOLDER", help="run its plans on a GPU")
    parser.add_argument("--table", type=Path, metavar="FOLDER", help="print both side by side")
    parser.add_argument("--only", nargs="*", choices=MODELS, default=MODELS)
    args = parser.parse_args()
    for name in args.only:
        if args.solve:
            try:
                solve(name, args.solve)
            except Exception as error:
                failed = {"failed": f"{type(error).__name__}: {error}", "predicted_peak": None}
                plan_table.store(args.solve, name, ".torch", failed)
                print(f"{name}: torch's solver failed: {error!r}", flush=True)
        if args.run:
            run(name, args.run)
    if args.table:
        plan_table.print_table(args.table, MODELS, HEAD, rows_of)


if __name__ == "__main__":
    sys.exit(main())
