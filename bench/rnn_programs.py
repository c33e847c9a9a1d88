"""Programs of torch with recurrent networks, and what they allocate.

All run in one process, one after the other. Sees: torch's own history of allocations.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import random
from typing import Any

Program = dict[str, Any]
DTYPES = ("float32", "float16", "bfloat16")


def _program(cell: str, **choices: Any) -> Program:
    plain = {
        "cell": cell,
        "input": 128,
        "hidden": 256,
        "layers": 1,
        "both_ways": False,
        "proj": 0,
        "dtype": "float32",
        "dropout": 0.0,
        "bias": True,
        "batch_first": False,
        "packed": "",
        "steps": 50,
        "batch": 16,
        "mode": "train",
        "optimizer": "sgd",
    }
    return plain | choices


def programs() -> list[Program]:
    """All programs: a few that are known by name, a grid, and a sample of the rest."""
    cells = ("lstm", "gru", "tanh", "relu")
    found = [
        _program(
            "lstm",
            input=256,
            hidden=512,
            layers=2,
            both_ways=True,
            packed="400..8",
            steps=400,
            batch=32,
            batch_first=True,
        )
    ]
    for cell, dtype, packed, both in itertools.product(cells, DTYPES, ("", "ramp"), (False, True)):
        found.append(_program(cell, dtype=dtype, packed=packed, both_ways=both, layers=2))
    for cell, layers, packed in itertools.product(cells, (1, 3, 4), ("", "ramp")):
        found.append(_program(cell, layers=layers, packed=packed, both_ways=layers == 3))
    for dtype, layers, packed in itertools.product(DTYPES, (1, 2), ("", "ramp")):
        found.append(_program("lstm", proj=64, dtype=dtype, layers=layers, packed=packed))
        found.append(
            _program("lstm", proj=32, dtype=dtype, layers=layers, packed=packed, both_ways=True)
        )
    for cell, mode in itertools.product(cells, ("eval", "no_grad", "autocast", "unflattened")):
        found.append(_program(cell, mode=mode, layers=2))
        found.append(_program(cell, mode=mode, layers=2, packed="ramp", both_ways=True))
    for cell in cells:
        found.append(_program(cell, layers=3, dropout=0.3, batch_first=True))
        found.append(_program(cell, layers=2, dropout=0.3, packed="ramp", both_ways=True))
        found.append(_program(cell, bias=False, batch_first=True))
        found.append(_program(cell, mode="states", layers=2))
        found.append(_program(cell, mode="unbatched"))
        found.append(_program(cell, mode="last_state", layers=2, batch_first=True))
    chance = random.Random(3)
    for _ in range(64):
        cell = chance.choice(cells)
        found.append(
            _program(
                cell,
                input=chance.choice([1, 10, 64, 100, 128, 300, 512]),
                hidden=chance.choice([5, 32, 64, 100, 128, 192, 200, 256, 384, 512, 1024]),
                layers=chance.randint(1, 4),
                both_ways=chance.random() < 0.5,
                dtype=chance.choice(DTYPES),
                dropout=chance.choice([0.0, 0.0, 0.2]),
                batch_first=chance.random() < 0.5,
                packed=chance.choice(["", "", "ramp", "one", "unsorted"]),
                steps=chance.choice([1, 2, 7, 20, 33, 64, 100, 150]),
                batch=chance.choice([1, 2, 3, 8, 16, 24, 33, 64, 128]),
                mode=chance.choice(["train", "train", "eval", "autocast", "states"]),
                optimizer=chance.choice(["sgd", "adam"]),
            )
        )
    return found


def lengths_of(program: Program) -> list[int]:
    steps, batch = program["steps"], program["batch"]
    if program["packed"] == "400..8":
        return [max(8, 400 - 13 * number) for number in range(batch)]
    if program["packed"] == "one":
        return [steps] + [1] * (batch - 1)
    ramp = [max(1, steps - (steps - 1) * i // max(1, batch - 1)) for i in range(batch)]
    return ramp[1::2] + ramp[::2] if program["packed"] == "unsorted" else ramp


def _network(program: Program) -> Any:
    import torch

    cell = program["cell"]
    made = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU}.get(cell, torch.nn.RNN)
    choices: dict[str, Any] = {
        "num_layers": program["layers"],
        "bidirectional": program["both_ways"],
        "batch_first": program["batch_first"],
        "bias": program["bias"],
        "dropout": program["dropout"] if program["layers"] > 1 else 0.0,
    }
    if cell in ("tanh", "relu"):
        choices["nonlinearity"] = cell
    if program["proj"]:
        choices["proj_size"] = program["proj"]
    network = made(program["input"], program["hidden"], **choices)
    dtype = getattr(torch, program["dtype"])
    is_mixed = program["mode"] == "autocast"
    network = network.to(device="cuda", dtype=torch.float32 if is_mixed else dtype)
    if program["mode"] == "unflattened":
        for name, weight in list(network.named_parameters()):
            setattr(network, name, torch.nn.Parameter(weight.detach().clone()))
        network._flat_weights = [getattr(network, name) for name in network._flat_weights_names]
    return network


def _step(program: Program, network: Any) -> None:
    import torch

    steps, batch, width = program["steps"], program["batch"], program["input"]
    is_mixed = program["mode"] == "autocast"
    dtype = torch.float32 if is_mixed else getattr(torch, program["dtype"])
    shape = (batch, steps, width) if program["batch_first"] else (steps, batch, width)
    if program["mode"] == "unbatched":
        shape = (steps, width)
    x: Any = torch.zeros(shape, device="cuda", dtype=dtype, requires_grad=program["bias"])
    if program["packed"]:
        x = torch.nn.utils.rnn.pack_padded_sequence(
            x,
            torch.tensor(lengths_of(program)),
            batch_first=program["batch_first"],
            enforce_sorted=program["packed"] != "unsorted",
        )
    arguments = [x]
    if program["mode"] == "states":
        layers = program["layers"] * (2 if program["both_ways"] else 1)
        h = torch.zeros(layers, batch, program["hidden"], device="cuda", dtype=dtype)
        h.requires_grad_()
        arguments.append((h, h.detach().clone()) if program["cell"] == "lstm" else h)
    is_silent = program["mode"] in ("eval", "no_grad")
    half = torch.float16 if program["dtype"] == "float32" else getattr(torch, program["dtype"])
    with contextlib.ExitStack() as stack:
        if is_silent:
            stack.enter_context(torch.no_grad())
        if is_mixed:
            stack.enter_context(torch.autocast("cuda", dtype=half))
        out, state = network(*arguments)
    if program["packed"]:
        out = torch.nn.utils.rnn.pad_packed_sequence(out, batch_first=program["batch_first"])[0]
    if not is_silent:
        if program["mode"] == "last_state":
            last = state[0] if isinstance(state, tuple) else state
            last.float().sum().backward()
        else:
            out.float().sum().backward()


def train(program: Program) -> None:
    """Two steps of a program."""
    import torch

    network = _network(program)
    network.train(program["mode"] != "eval")
    made = torch.optim.Adam if program["optimizer"] == "adam" else torch.optim.SGD
    optimizer = made(network.parameters(), lr=0.1)
    for _ in range(2):
        _step(program, network)
        if program["mode"] not in ("eval", "no_grad"):
            optimizer.step()
            optimizer.zero_grad()
    torch.cuda.synchronize()


def run(program: Program) -> dict[str, Any]:
    """The sizes of all allocations of a program, and its peaks."""
    import torch

    gc.collect()
    torch._C._cuda_clearCublasWorkspaces()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_stats()
    torch.cuda.memory._record_memory_history(enabled="all", context=None, max_entries=200_000)
    try:
        train(program)
        traces = torch.cuda.memory._snapshot()["device_traces"]
    finally:
        torch.cuda.memory._record_memory_history(enabled=None)
    stats = torch.cuda.memory_stats()
    allocated, reserved = "allocated_bytes.all", "reserved_bytes.all"
    return {
        "sizes": [event["size"] for t in traces for event in t if event["action"] == "alloc"],
        "peak": stats[f"{allocated}.peak"] - before[f"{allocated}.current"],
        "reserved": stats[f"{reserved}.peak"] - before[f"{reserved}.current"],
    }


def run_all(chosen: list[Program]) -> list[dict[str, Any]]:
    """What each program allocates, or the error that it ended with."""
    # torch keeps the state of dropout for good: it is there before the first program.
    run(_program("lstm", layers=2, dropout=0.3))
    results: list[dict[str, Any]] = []
    for program in chosen:
        try:
            results.append(run(program))
        except Exception as error:
            results.append({"error": f"{type(error).__name__}: {error}"[:300]})
    return results
