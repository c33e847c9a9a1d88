"""Every operator of torch's own database on a phantom GPU: which crash, hang, fail or are refused.

    python bench/conformance/phantom_ops.py [--samples 3] [--only linalg]

Samples are made on the host by torch (`torch.testing`), run there, and run again on the phantom,
with backward where there is one. What is compared is what memory is made of: the shapes, types and
bytes of results and gradients. Operators run in child processes, so that one that takes its process
with it is found, and the rest go on. Writes `bench/results/phantom-ops.md`.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import queue
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parents[1] / "results"
#: An operator without output for this time hangs.
MOST_SECONDS = 120.0
DTYPES = ("float32", "int64")


def database() -> list[Any]:
    """The operators, in the order that torch has them."""
    import types
    import unittest

    # torch's tests import it; of it, only the class of tests is needed to import them.
    stand_in = types.ModuleType("expecttest")
    stand_in.TestCase = unittest.TestCase  # type: ignore[attr-defined]
    sys.modules.setdefault("expecttest", stand_in)
    from torch.testing._internal.common_methods_invocations import op_db

    return list(op_db)


def described(value: Any) -> list[tuple[Any, ...]]:
    """Shape, type and bytes of every tensor in a result."""
    import torch
    from torch.utils._pytree import tree_leaves

    found: list[tuple[Any, ...]] = []
    for leaf in tree_leaves(value):
        if isinstance(leaf, torch.Tensor):
            size = 0 if leaf.layout != torch.strided else leaf.numel() * leaf.element_size()
            found.append((tuple(leaf.shape), str(leaf.dtype), size))
    return found


def run(op: Any, sample: Any) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """The results of the operator, and the gradients of its arguments."""
    import torch
    from torch.utils._pytree import tree_leaves

    result = op(sample.input, *sample.args, **sample.kwargs)
    shown = sample.output_process_fn_grad(result)
    leaves = [leaf for leaf in tree_leaves(shown) if isinstance(leaf, torch.Tensor)]
    loss = [leaf.abs().sum() for leaf in leaves if leaf.requires_grad]
    if loss:
        torch.stack([part.to(torch.float32) for part in loss]).sum().backward()
    given = tree_leaves((sample.input, sample.args, sample.kwargs))
    grads = [leaf.grad for leaf in given if isinstance(leaf, torch.Tensor) and leaf.is_leaf]
    return described(result), described([grad for grad in grads if grad is not None])


def on_device(sample: Any) -> Any:
    """The same sample on the phantom, with gradients of its own."""
    import torch

    def move(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return value.detach().to("cuda").requires_grad_(value.requires_grad)
        if isinstance(value, torch.device):
            return torch.device("cuda")
        return value

    moved = sample.transform(move)
    if moved.kwargs.get("device") in ("cpu", torch.device("cpu")):
        moved.kwargs["device"] = "cuda"
    return moved


def samples_of(op: Any, dtype: Any, most: int) -> list[Any]:
    """The first samples of an operator; none where the types do not fit."""
    import itertools

    import torch

    if dtype not in op.supported_dtypes("cpu") or dtype not in op.supported_dtypes("cuda"):
        return []
    wants_grad = dtype.is_floating_point and op.supports_autograd
    torch.manual_seed(0)
    made = op.sample_inputs("cpu", dtype, requires_grad=wants_grad)
    return list(itertools.islice(made, most))


def judged(op: Any, most: int) -> dict[str, Any]:
    """The verdict on an operator."""
    import torch

    row: dict[str, Any] = {"samples": 0, "kind": "same", "detail": ""}
    for name in DTYPES:
        for sample in samples_of(op, getattr(torch, name), most):
            device_sample = on_device(sample)
            try:
                expected = run(op, sample)
            except Exception:  # the host cannot: there is nothing to compare with
                continue
            row["samples"] += 1
            try:
                found = run(op, device_sample)
            except Exception as error:
                text = f"{type(error).__name__}: {error}".splitlines()[0]
                return row | {"kind": "error", "detail": f"{name}: {text[:160]}"}
            if found != expected:
                detail = f"{name}: {expected} on the host, {found} here"
                row = row | {"kind": "different", "detail": detail[:240]}
    return row


def child(first: int, last: int, most: int, only: str) -> None:
    """Runs operators `first` to `last`, one line of JSON before and after each."""
    import warnings

    import floodmark

    with floodmark.phantom("h200"):
        import torch

        from floodmark.estimate.device import library

        warnings.simplefilter("ignore")
        chosen = [op for op in database() if only in op.formatted_name][first:last]
        torch.zeros(1, device="cuda")
        for number, op in enumerate(chosen, start=first):
            say({"begin": number, "name": op.formatted_name})
            before = refused_calls(library)
            row = judged(op, most)
            calls = refused_calls(library) - before
            say({"end": number, "name": op.formatted_name, "refused": sorted(calls)} | row)
    say({"over": True})
    os._exit(0)


def refused_calls(phantom: Any) -> set[str]:
    """The names of CUDA's that were refused so far."""
    return {f"{call.library}: {call.name}" for call in phantom.loaded().library.unsupported()}


def say(line: dict[str, Any]) -> None:
    """Print a line for the parent, marked by its first letter."""
    sys.stdout.write("@" + json.dumps(line) + "\n")
    sys.stdout.flush()


class Children:
    """One child after the other, until every operator was run."""

    def __init__(self, most: int, only: str) -> None:
        self.rows: dict[str, dict[str, Any]] = {}
        self._arguments = ["--samples", str(most), "--only", only]

    def run(self, first: int, last: int) -> int:
        """Runs a range; returns the operator with which to continue."""
        command = [sys.executable, __file__, "--child", str(first), str(last), *self._arguments]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace"
        )
        lines: queue.Queue[str | None] = queue.Queue()
        said: collections.deque[str] = collections.deque(maxlen=5)
        threading.Thread(target=_read, args=(process.stdout, lines), daemon=True).start()
        threading.Thread(target=_keep, args=(process.stderr, said), daemon=True).start()
        running, following, is_over = None, first, False
        while True:
            try:
                line = lines.get(timeout=MOST_SECONDS)
            except queue.Empty:
                self.rows[running or "start"] = {"kind": "hang", "samples": 0, "detail": ""}
                process.kill()
                return following + 1
            if line is None:
                break
            fact = json.loads(line[1:])
            is_over = is_over or "over" in fact
            if "begin" in fact:
                running, following = fact["name"], fact["begin"]
            elif "end" in fact:
                self.rows[fact["name"]] = fact
                running, following = None, fact["end"] + 1
        status = process.wait()
        if is_over:
            return last
        detail = f"status {status}; {' '.join(said)[-160:]}"
        self.rows[running or f"child {first}"] = {"kind": "crash", "samples": 0, "detail": detail}
        return following + 1


def _read(pipe: Any, lines: queue.Queue[str | None]) -> None:
    for line in pipe:
        if line.startswith("@"):
            lines.put(line)
    lines.put(None)


def _keep(pipe: Any, said: collections.deque[str]) -> None:
    for line in pipe:
        said.append(line.strip())


def table(rows: dict[str, dict[str, Any]]) -> str:
    """The page of results."""
    import torch

    kinds = collections.Counter(row["kind"] for row in rows.values())
    samples = sum(row["samples"] for row in rows.values())
    refused = {call: name for name, row in rows.items() for call in row.get("refused", ())}
    text = [
        "# torch's operators on a phantom GPU",
        "",
        f"`python bench/conformance/phantom_ops.py`, torch {torch.__version__}, a simulated H200, "
        f"no GPU: {len(rows)} operators of torch's own database, {samples} samples (float32 and "
        "int64, with backward). The host runs the same samples; shapes, types and bytes of "
        "results and gradients are compared.",
        "",
        "| | operators |",
        "|---|---|",
    ]
    words = {
        "same": "the same as on the host",
        "different": "other shapes or types than on the host",
        "error": "an error, where the host has none",
        "hang": "hangs",
        "crash": "takes the process with it",
    }
    text += [f"| {words[kind]} | {kinds[kind]} |" for kind in words]
    text += [f"| calls of CUDA that were refused | {len(refused)} |", ""]
    text += [f"- refused: `{call}` ({name})" for call, name in sorted(refused.items())]
    for kind in ("crash", "hang", "error", "different"):
        chosen = [(name, row) for name, row in rows.items() if row["kind"] == kind]
        if chosen:
            text += ["", f"## {words[kind]}", ""]
            text += [f"- `{name}` {row['detail']}" for name, row in sorted(chosen)]
    return "\n".join(text) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=3, help="of each type")
    parser.add_argument("--only", default="", help="operators whose names have this in them")
    parser.add_argument("--child", nargs=2, type=int, help=argparse.SUPPRESS)
    parser.add_argument("--batch", type=int, default=250, help="operators in a process")
    parser.add_argument("-o", "--output", type=Path, default=RESULTS / "phantom-ops.md")
    options = parser.parse_args()
    if options.child:
        child(*options.child, options.samples, options.only)
        return
    count = sum(options.only in op.formatted_name for op in database())
    children = Children(options.samples, options.only)
    at = 0
    while at < count:
        at = children.run(at, min(at + options.batch, count))
        print(f"{at} of {count} operators", file=sys.stderr)
    options.output.write_text(table(children.rows))
    bad = [name for name, row in children.rows.items() if row["kind"] in ("crash", "hang")]
    print(f"{len(children.rows)} operators, {len(bad)} crash or hang: {bad}")


if __name__ == "__main__":
    main()
