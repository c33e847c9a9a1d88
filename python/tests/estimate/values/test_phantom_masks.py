"""Masks and counts on a simulated GPU: forward and backward count the same rows.

One program has all cases: CUDA begins once in a process, and importing torch takes seconds.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from support.phantoms import own_caches

pytestmark = pytest.mark.skipif(torch.version.cuda is None, reason="torch has no CUDA in it")

BEGIN = """
import json, sys, floodmark
with floodmark.phantom("h200"):
    import torch
cuda = torch.device("cuda")
known = torch.arange(400, device=cuda) % 2 == 0
found = {}
def case(function):
    try:
        found[function.__name__] = function()
    except Exception as error:
        found[function.__name__] = repr(error)
def leaf(*shape):
    return torch.empty(*shape, device=cuda, requires_grad=True)
def grown(result, *leaves):
    result.sum().backward()
    return [list(result.shape), *(list(one.grad.shape) for one in leaves)]
"""
END = """
from floodmark.estimate.phantom import simulated_gpu
reads = simulated_gpu.current().phantom.reads()
kept = ("line", "op", "count", "assumed", "reason")
print(json.dumps([found, [{key: read[key] for key in kept} for read in reads]]))
"""

CASES = """
@case
def rows_of_a_known_mask():
    x = leaf(400, 8)
    return grown(x[known], x)
@case
def rows_that_are_set():
    t, y = leaf(200, 8), torch.zeros(400, 8, device=cuda)
    y[known] = t
    return grown(y, t)
@case
def masked_select():
    x = leaf(400, 8)
    return grown(x.masked_select(known[:, None]), x)
@case
def two_masks():
    x = leaf(400, 400)
    return grown(x[known, known], x)
@case
def where():
    x = leaf(400, 8)
    return grown(x[torch.where(known)], x)
@case
def repeated():
    x = leaf(3, 4)
    return grown(x.repeat_interleave(torch.tensor([1, 0, 3], device=cuda), 0), x)
@case
def padding_of_a_sparse_embedding():
    table = torch.nn.Embedding(100, 16, padding_idx=0, sparse=True).cuda()
    table(torch.tensor([[1, 0, 2, 2, 1]], device=cuda)).sum().backward()
    return [table.weight.grad._nnz(), table.weight.grad.coalesce()._nnz()]
@case
def coalesced():
    places = torch.tensor([[0, 1, 1, 2], [2, 0, 0, 1]], device=cuda)
    ones = torch.ones(4, device=cuda)
    whole = torch.sparse_coo_tensor(places, ones, (3, 3), check_invariants=False)
    return list(whole.coalesce().indices().shape)
@case
def unique():
    a = torch.tensor([[1, 1, 2], [1, 1, 2]], device=cuda)
    parts = torch.unique(a, dim=1, return_inverse=True, return_counts=True)
    return [[part.tolist() for part in parts], torch.unique_consecutive(a).tolist()]
@case
def combinations():
    return list(torch.combinations(torch.arange(5, device=cuda)).shape)
@case
def transformed():
    return list(torch.func.grad(lambda x: (x[x > -1] + x[known].sum()).sum())(leaf(400)).shape)
@case
def compiled():
    x = leaf(400, 8)
    work = torch.compile(lambda x, mask: x[mask] * 2, backend="aot_eager")
    return grown(work(x, known), x)
@case
def of_a_function_of_the_program():
    class Chosen(torch.autograd.Function):
        @staticmethod
        def forward(context, x):
            context.save_for_backward(x)
            return x[known]
        @staticmethod
        def backward(context, gradient):
            (x,) = context.saved_tensors
            whole = torch.zeros_like(x)
            whole[known] = gradient
            return whole
    x = leaf(400, 8)
    return grown(Chosen.apply(x), x)
"""

ROWS = {
    "rows_of_a_known_mask": [[200, 8], [400, 8]],
    "rows_that_are_set": [[400, 8], [200, 8]],
    "masked_select": [[1600], [400, 8]],
    "two_masks": [[200], [400, 400]],
    "where": [[200, 8], [400, 8]],
    "repeated": [[4, 4], [3, 4]],
    "padding_of_a_sparse_embedding": [4, 2],
    "coalesced": [2, 3],
    "unique": [[[[1, 2], [1, 2]], [0, 0, 1], [2, 1]], [1, 2, 1, 2]],
    "combinations": [10, 2],
    "transformed": [400],
    "compiled": [[200, 8], [400, 8]],
    "of_a_function_of_the_program": [[200, 8], [400, 8]],
}


def run(tmp_path: Path, code: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What the cases gave, and what was read that is not known."""
    path = tmp_path / "program.py"
    path.write_text(BEGIN + code + END)
    done = subprocess.run(
        [sys.executable, str(path)],
        capture_output=True,
        text=True,
        timeout=600,
        env=os.environ | own_caches(tmp_path),
    )
    assert done.returncode == 0, f"status {done.returncode}: {done.stderr[-3000:]}"
    found, reads = json.loads(done.stdout.splitlines()[-1])
    return found, reads


def line_of(code: str, text: str) -> int:
    """The line of a program in which a text stands first."""
    before, found, _ = (BEGIN + code).partition(text)
    assert found
    return before.count("\n") + 1


def test_forward_and_backward_count_the_same_rows(tmp_path: Path) -> None:
    found, reads = run(tmp_path, CASES)
    assert found == ROWS
    # A gradient that is taken from values which were not computed is the only one that is assumed.
    assert [read["op"] for read in reads] == ["nonzero"]


TRANSFORMED = """
from torch.func import vmap, grad
@case
def made_in_vmap():
    numbers = torch.arange(400, device=cuda).reshape(4, 100)
    mask = vmap(lambda row: (row % 2 == 0) & (row > 100))(numbers)
    x = leaf(4, 100)
    return [grown(x[mask], x), mask.sum().item()]
@case
def filled_in_vmap():
    x = leaf(400, 8)
    chosen = vmap(lambda row, keep: torch.where(keep, row, 0.0))(x, known)
    return grown(chosen, x)
@case
def gradients_in_vmap():
    x = torch.ones(400, 8, device=cuda)
    each = vmap(grad(lambda row, keep: (row * keep).sum()), in_dims=(0, 0))(x, known)
    return list(each[known].shape)
@case
def rows_after_vmap():
    order = vmap(lambda n: n * 3)(torch.arange(400, device=cuda))
    return list(order[order > 600].shape)
@case
def written_in_vmap():
    mask = torch.ones(4, 100, dtype=torch.bool, device=cuda)
    vmap(lambda row: row.logical_not_())(mask)
    return list(torch.empty(4, 100, device=cuda)[mask].shape)
"""


def test_masks_that_are_made_in_a_transform_have_their_rows(tmp_path: Path) -> None:
    found, reads = run(tmp_path, TRANSFORMED)
    assert found == {
        "made_in_vmap": [[[149], [4, 100]], 149],
        "filled_in_vmap": [[400, 8], [400, 8]],
        "gradients_in_vmap": [200, 8],
        "rows_after_vmap": [199],
        "written_in_vmap": [400],
    }
    # What a function writes in a transform is not computed: the answer is an assumed value.
    [read] = reads
    assert (read["op"], read["assumed"]) == ("nonzero", "400 rows")
    assert read["line"] == line_of(TRANSFORMED, "[mask].shape")


COMPILED = """
@case
def inductor_with_a_known_mask():
    x = leaf(400, 8)
    work = torch.compile(lambda x, mask: (x * 2)[mask] * 3)
    return grown(work(x, known), x)
@case
def inductor_captures_the_count():
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        x = leaf(400, 8)
        work = torch.compile(lambda x, mask: x[mask] * 2, fullgraph=True)
        return grown(work(x, known), x)
@case
def made_by_inductor():
    x, numbers = leaf(400, 8), torch.arange(400, device=cuda)
    mask = torch.compile(lambda n: (n % 2 == 0) & (n > 100))(numbers)
    return [grown(x[mask], x), mask.sum().item()]
@case
def made_and_used_by_inductor():
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        x, numbers = leaf(400, 8), torch.arange(400, device=cuda)
        work = torch.compile(lambda x, n: x[n > 100] * 2, fullgraph=True)
        return grown(work(x, numbers), x)
"""


def test_masks_that_a_compiled_kernel_made_are_assumed(tmp_path: Path) -> None:
    pytest.importorskip("triton")
    found, reads = run(tmp_path, COMPILED)
    assert found == {
        "inductor_with_a_known_mask": [[200, 8], [400, 8]],
        "inductor_captures_the_count": [[200, 8], [400, 8]],
        "made_by_inductor": [[[0, 8], [400, 8]], 0],
        "made_and_used_by_inductor": [[0, 8], [400, 8]],
    }
    assert {read["reason"] for read in reads} == {
        "rests on values that were not computed and count as zero"
    }
    # Each is listed with a line of the program, not with one of the code that was generated.
    lines = {(read["line"], read["op"]) for read in reads}
    outside = line_of(COMPILED, "mask.sum().item()")
    inside = line_of(COMPILED, "x[n > 100]")
    assert lines == {(outside, "nonzero"), (outside, "item"), (inside, "nonzero")}


UNKNOWN = """
@case
def assumed():
    x = leaf(4000, 800)
    scores = x @ torch.empty(800, 8, device=cuda)
    return grown(x[scores[:, 0] >= 0], x)
@case
def large_and_assumed():
    x = leaf(1 << 20)
    return [grown(x[x * 2 >= 0], x), grown(x[x * 2 > 0], x)]
@case
def random():
    x = leaf(400, 8)
    rows, gradient = grown(x[torch.rand(400, device=cuda) > 0.5], x)
    return [150 < rows[0] < 250, gradient]
@case
def random_and_large():
    x = leaf(10_000_000)
    rows, _ = grown(x[torch.rand(10_000_000, device=cuda) > 0.3], x)
    return 6_900_000 < rows[0] < 7_100_000
@case
def of_random_numbers():
    drawn = torch.rand(10_000_000, device=cuda) * 2 - 1
    inside = (drawn.abs() < 0.25).sum().item()
    return [2_400_000 < inside < 2_600_000, 4_900_000 < len((drawn > 0).nonzero()) < 5_100_000]
@case
def drawn_in_place():
    normal = torch.empty(300_000, device=cuda).normal_(mean=3.0)
    return 295_000 < len((normal > 0).nonzero()) <= 300_000
@case
def of_probabilities():
    chances = torch.full((32, 512), 0.15, device=cuda)
    large = torch.full((1024, 1024), 0.15, device=cuda)
    some, many = torch.bernoulli(chances).bool(), torch.bernoulli(large).bool()
    return [2000 < some.sum().item() < 2900, 145_000 < len(large[many]) < 170_000]
@case
def shuffled():
    order = torch.rand(4, 196, device=cuda).argsort(dim=1)
    return order[0].sort().values.tolist() == list(range(196))
@case
def initialised_again():
    weight = torch.ones(8, 8).cuda()
    torch.nn.init.normal_(weight)
    return weight.sum().item() != 64
"""


def test_masks_of_random_numbers_have_plausible_rows(tmp_path: Path) -> None:
    found, reads = run(tmp_path, UNKNOWN)
    assert found == {
        "assumed": [[4000, 800], [4000, 800]],
        "large_and_assumed": [[[1 << 20], [1 << 20]], [[0], [1 << 20]]],
        "random": [True, [400, 8]],
        "random_and_large": True,
        "of_random_numbers": [True, True],
        "drawn_in_place": True,
        "of_probabilities": [True, True],
        "shuffled": True,
        "initialised_again": True,
    }
    first_of_random = BEGIN.count("\n") + UNKNOWN.split("def random()")[0].count("\n")
    reasons = {read["reason"] for read in reads if read["line"] > first_of_random}
    assert reasons == {"rests on random numbers"}
    reasons = {read["reason"] for read in reads if read["line"] <= first_of_random}
    assert reasons == {"rests on values that were not computed and count as zero"}
    assert all(read["line"] for read in reads), "a backward pass is not listed again"


OPTIMIZERS = """
from torch.optim import SGD, Adagrad, Adam, AdamW
@case
def fused():
    for width in (3, 48, 64, 300):
        model = torch.nn.Linear(width, width).cuda()
        for make, options in (
            (AdamW, {"fused": True}), (Adam, {"fused": True, "amsgrad": True}),
            (SGD, {"fused": True, "lr": 0.1, "momentum": 0.9}), (Adagrad, {"foreach": True}),
            (AdamW, {"foreach": True}), (AdamW, {"capturable": True}),
        ):
            optimizer = make(model.parameters(), **options)
            for _ in range(2):
                model(torch.randn(2, width, device=cuda)).sum().backward()
                optimizer.step()
    return model.weight.norm().item()
@case
def expanded():
    a = torch.zeros(1, dtype=torch.long, device=cuda).expand(64)
    b = torch.arange(64, device=cuda)
    return [(a + b).sum().item(), torch.add(a, b, out=b).sum().item(), b.mul_(b).sum().item()]
@case
def overlapping():
    a = torch.arange(10, device=cuda).as_strided((4, 4), (2, 1))
    return [a.tolist()[3], (a * 2).sum().item(), a[:, ::2].contiguous().tolist()[1]]
"""


def test_no_call_on_the_host_leaves_its_memory(tmp_path: Path) -> None:
    found, _ = run(tmp_path, OPTIMIZERS)
    assert found == {
        "fused": 0.0,
        "expanded": [2016, 2016, sum(n * n for n in range(64))],
        "overlapping": [[6, 7, 8, 9], 144, [2, 4]],
    }


LAUNCHES = """
import triton
from triton import language as tl
@triton.jit
def add_one(numbers, floats, flags, size: tl.constexpr):
    at = tl.arange(0, size)
    tl.store(floats + at, tl.load(floats + at) + 1)
    tl.store(flags + at, tl.load(numbers + at) > 3)
@case
def written_by_a_kernel():
    floats, numbers = torch.full((16,), 7.0, device=cuda), torch.arange(16, device=cuda)
    flags = torch.zeros(16, dtype=torch.bool, device=cuda)
    add_one[(1,)](numbers, floats, flags, 16)
    return [floats.sum().item(), flags.any().item(), numbers.sum().item()]
"""


def test_what_a_triton_kernel_may_have_written_is_not_known(tmp_path: Path) -> None:
    pytest.importorskip("triton")
    found, reads = run(tmp_path, LAUNCHES)
    assert found == {"written_by_a_kernel": [0.0, False, 120]}
    assert [read["count"] for read in reads] == [3], "all three are listed"


def test_an_answer_for_a_mask_holds_for_its_gradient(tmp_path: Path) -> None:
    code = """
x = torch.empty(64, 8, device="cuda", requires_grad=True)
mask = (x @ torch.empty(8, 8, device="cuda"))[:, 0] > 0
chosen = x[mask]
chosen.sum().backward()
print(list(chosen.shape), list(x.grad.shape), int(mask.sum()), list(x[mask].shape))
def largest():
    return torch.arange(3, device="cuda").max().item()
print("largest", largest())
"""
    path = tmp_path / "program.py"
    path.write_text("import torch" + code)
    answers = ["--answer", f"{path}:4=20", "--answer", f"{path}:8=0"]
    options = ["--gpu", "h200", *answers, "-o", str(tmp_path / "a.flood")]
    command = [sys.executable, "-m", "floodmark", "estimate", *options, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "[20, 8] [64, 8] 20 [20, 8]" in done.stdout + done.stderr
    assert "largest 0" in done.stdout + done.stderr
