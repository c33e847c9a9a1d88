"""Values on a phantom GPU: what a program reads back, and what is said about it.

Each test runs a program of its own: CUDA begins once in a process.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

pytestmark = pytest.mark.skipif(torch.version.cuda is None, reason="torch has no CUDA in it")

BEGIN = """
import json, floodmark
with floodmark.phantom("h200"):
    import torch
cuda = torch.device("cuda")
"""
END = """
from floodmark.estimate.phantom import simulated_gpu
reads = simulated_gpu.current().phantom.reads()
print(json.dumps([found, [[r["line"], r["op"], r["count"], r["assumed"]] for r in reads]]))
"""


def run(tmp_path: Path, code: str) -> tuple[list[object], list[list[object]]]:
    """What the program found, and what it read that was not known."""
    path = tmp_path / "program.py"
    path.write_text(BEGIN + code + END)
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    found, reads = json.loads(done.stdout.splitlines()[-1])
    return found, reads


#: Each gives the same on a phantom and on the host; none may count as a guess.
INTEGERS = """
a = torch.arange(12, device=D)
m = a % 3 == 0
x = torch.tensor([[1, 2, 3], [4, 5, 6]], device=D)
y = torch.zeros(6, dtype=torch.long, device=D)
y[2] = 7; y[3:5] += 2; y[m[:6]] = 9
z = torch.empty(4, dtype=torch.int32, device=D).fill_(3); z.mul_(a[:4].int())
w = torch.zeros(3, 4, dtype=torch.long, device=D); w[:, 1] = 5; w[1].copy_(a[:4])
found = [
    a.tolist(), (a * 2 + 1).sum().item(), bool((a > 4).any()), int(a.max()), float(a[3]),
    a[m].tolist(), m.nonzero().flatten().tolist(), torch.masked_select(a, ~m).tolist(),
    torch.where(m)[0].tolist(), torch.where(m, a, -a).tolist(), m.sum().item(),
    x.t().contiguous().tolist(), x[:, 1].tolist(), x.to(torch.int16).cpu().tolist(),
    x.t().tolist(), x.view(-1).flip(0).tolist(), x.to("cpu", torch.int32).tolist(),
    y.tolist(), z.tolist(), w.tolist(), torch.cumsum(a, 0).tolist(),
    torch.cat([a, y]).tolist(), torch.stack([x, x]).shape, torch.roll(a, 2).tolist(),
    [t.tolist() for t in torch.unique(a // 4, return_counts=True)],
    torch.repeat_interleave(a[:3], a[1:4]).tolist(), torch.bincount(a // 2).tolist(),
    torch.nn.functional.one_hot(a[:4]).tolist(), torch.searchsorted(a, a[3:5]).tolist(),
    torch.equal(a, a.clone()), torch.equal(a, a + 1), 3 in a, [int(i) for i in a[:3]],
    torch.sort(-a)[1].tolist(), torch.topk(a, 2).indices.tolist(), a.argmax().item(),
    torch.tril(torch.ones(3, 3, dtype=torch.bool, device=D)).tolist(),
    torch.gather(x, 1, torch.tensor([[2], [0]], device=D)).tolist(),
    y.index_fill(0, a[:1], 4).tolist(), y.scatter(0, a[:2], 1).tolist(), (a & 3).tolist(),
    torch.full((2,), 3, device=D).tolist(), torch.tensor([1.5, -2.0], device=D).tolist(),
    (torch.tensor([1.5, -2.0], device=D) * 2).tolist(), torch.ones(3, device=D).sum().item(),
]
"""


def test_integers_have_the_values_that_they_have_on_the_host(tmp_path: Path) -> None:
    found, reads = run(tmp_path, INTEGERS.replace("D)", "cuda)"))
    names: dict[str, object] = {}
    exec("import torch\n" + INTEGERS.replace("D)", "'cpu')"), names)
    assert found == json.loads(json.dumps(names["found"]))
    assert reads == []


def test_floats_are_zero_unless_they_were_copied_in(tmp_path: Path) -> None:
    found, reads = run(
        tmp_path,
        """
x = torch.randn(64, 64)
there = x.to(cuda)
found = [
    bool((there.cpu() == x).all()), bool((there[3:5].cpu() == x[3:5]).all()),
    (there @ there).sum().item(), bool(torch.isfinite(there @ there).all()),
    there.add_(there @ there).cpu().abs().sum().item(),
]
""",
    )
    assert found == [True, True, 0.0, True, 0.0]
    assert len(reads) == 3
    assert [read[1] for read in reads].count("cpu") == 1


def test_a_read_is_listed_with_its_line_and_count(tmp_path: Path) -> None:
    found, reads = run(
        tmp_path,
        """
loss = torch.empty(8, device=cuda).mean()
found = []
for _ in range(3):
    found.append(loss.item())
found.append(len(torch.empty(10, device=cuda).nonzero()))
""",
    )
    assert found == [0.0, 0.0, 0.0, 0]
    assert [read[1:] for read in reads] == [["item", 3, "0"], ["nonzero", 1, "0 rows"]]
    assert reads[0][0] == BEGIN.count("\n") + 5


def test_memory_that_is_allocated_again_has_no_old_value(tmp_path: Path) -> None:
    found, _ = run(
        tmp_path,
        """
known = torch.full((16,), 7, device=cuda)
place = known.data_ptr()
del known
weight = torch.nn.Parameter(torch.empty(4, 4, device=cuda))
(torch.randn(2, 4, device=cuda) @ weight).sum().backward()
fresh = torch.empty(16, dtype=torch.long, device=cuda)
found = [weight.grad.norm().item(), fresh.sum().item()]
""",
    )
    assert found == [0.0, 0]


def test_random_numbers_of_the_host_stay_what_they_were(tmp_path: Path) -> None:
    found, reads = run(
        tmp_path,
        """
torch.manual_seed(3)
alone = torch.rand(2).tolist()
torch.manual_seed(3)
drawn = torch.randint(5, 9, (100,), device=cuda).tolist()
found = [alone == torch.rand(2).tolist(), min(drawn) >= 5, max(drawn) < 9, len(set(drawn)) > 1]
found += [sorted(torch.randperm(5, device=cuda).tolist())]
""",
    )
    assert found == [True, True, True, True, [0, 1, 2, 3, 4]]
    assert len(reads) == 2, "random numbers are not what a GPU would draw"


def test_values_are_followed_on_threads(tmp_path: Path) -> None:
    found, reads = run(
        tmp_path,
        """
import threading
found = []
thread = threading.Thread(target=lambda: found.extend((torch.arange(4, device=cuda) * 3).tolist()))
thread.start(); thread.join()
""",
    )
    assert (found, reads) == ([0, 3, 6, 9], [])


def test_no_tensor_is_kept_alive(tmp_path: Path) -> None:
    found, _ = run(
        tmp_path,
        """
import gc
gc.disable()
def work():
    a = torch.arange(1000, device=cuda)
    b = a[a % 2 == 0] + 1
    b[3] = 4
    return b.sum().item()
work()
before = torch.cuda.memory_allocated()
for _ in range(10):
    work()
found = [torch.cuda.memory_allocated() - before]
""",
    )
    assert found == [0]


def test_compiled_code_is_not_broken_into_pieces(tmp_path: Path) -> None:
    found, _ = run(
        tmp_path,
        """
import torch._dynamo.utils as utils
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU(), torch.nn.Linear(8, 8)).cuda()
compiled = torch.compile(model, backend="aot_eager")
compiled(torch.randn(2, 8, device=cuda)).sum().backward()
found = [len(utils.counters["graph_break"]), utils.counters["stats"]["unique_graphs"]]
found += [torch.arange(3, device=cuda).tolist()]
""",
    )
    assert found == [0, 1, [0, 1, 2]]


#: Tensors whose bytes are not their value, and classes of tensors. All of it is followed.
KINDS = """
z = torch.tensor([1 + 2j, 3 - 1j], device=D)
w = torch.zeros(2, dtype=torch.complex64, device=D)
w.conj().copy_(z); v = w.clone(); v.conj().imag.fill_(5.0)
def parts(t):
    return torch.view_as_real(t.resolve_conj()).tolist()
class Default(torch.Tensor): pass
class Delegates(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return super().__torch_function__(func, types, args, kwargs or {})
class Weight(torch.nn.Parameter): pass
class LoadedWeight(Weight):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return super().__torch_function__(func, types, args, kwargs or {})
found = [
    parts(z.conj()), z.conj().imag.tolist(), parts(z.conj().cpu()), (z.conj().imag + 1).tolist(),
    parts(z.conj().clone()), parts(w), parts(v),
]
for kind in (Default, Delegates):
    x = torch.ones(3, device=D).as_subclass(kind); x.add_(1); y = x * 2
    found += [x.tolist(), y.tolist(), y.sum().item(), type(y).__name__]
for kind in (Weight, LoadedWeight):
    p = kind(torch.empty(1, device=D), requires_grad=False)
    p.data.copy_(torch.tensor([1.5])); found.append(p.item())
    p.fill_(2.5); found.append(p.item())
    p.data.fill_(3.5); found += [p.item(), bool(p > 3), (p > 4).item()]
sparse = torch.tensor([[1.0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 2, 0], [0, 0, 0, 3]], device=D)
found += [
    sparse.to_sparse_bsr((2, 2))._nnz(), sparse.to_sparse_bsc((2, 2))._nnz(),
    sparse.to_sparse_csc()._nnz(), list(sparse.to_sparse_csc().to_dense().shape),
]
"""


def test_lazy_bits_and_classes_of_tensors_have_their_values(tmp_path: Path) -> None:
    found, reads = run(tmp_path, KINDS.replace("device=D", "device='cuda'"))
    names: dict[str, object] = {}
    exec("import torch\n" + KINDS.replace("device=D", "device='cpu'"), names)
    assert found == json.loads(json.dumps(names["found"]))
    assert reads == []


def test_what_is_not_followed_is_listed(tmp_path: Path) -> None:
    code = """
class Own(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        plain = [a.as_subclass(torch.Tensor) if isinstance(a, cls) else a for a in args]
        return func(*plain, **(kwargs or {}))
x = torch.ones(3, device=cuda)
o = x.as_subclass(Own)
o.add_(1)
found = [x.tolist()]
q = torch.quantize_per_tensor(torch.ones(4, device=cuda), 0.1, 10, torch.quint8)
found.append(list(q.int_repr().shape))
found.append(q.int_repr().tolist())
norm = torch.nn.BatchNorm1d(2).cuda()
norm(torch.ones(4, 2, device=cuda))
found.append(norm.running_mean.tolist())
y = torch.ones(3, device=cuda)
torch.nn.functional.relu(y * 0, inplace=True)
sparse = torch.eye(4, device=cuda).to_sparse_csr()
found.append(sparse.crow_indices().tolist()[0])
"""
    found, reads = run(tmp_path, code)
    assert found == [[0.0] * 3, [4], [0] * 4, [0.0] * 2, 0]
    first = BEGIN.count("\n")
    lines = {line - first for line, *_ in reads}  # type: ignore[operator]
    assert lines == {10, 13, 16, 20}, reads


def test_scalars_that_were_filled_have_their_values(tmp_path: Path) -> None:
    code = """
import threading
def fills():
    g = torch.Generator(device="cuda").manual_seed(1)
    noise = torch.empty(3, device=cuda).uniform_(2, 3, generator=g)
    scale = torch.nn.Parameter(torch.tensor(-1.0, device=cuda), requires_grad=False)
    scale.data = torch.tensor(0.5, device=cuda)
    moved = torch.nn.Parameter(torch.tensor(-1.0)).cuda().data
    moved *= 2
    eight = torch.empty(1, dtype=torch.float8_e4m3fn, device=cuda)
    eight.copy_(torch.tensor([1.5], device=cuda))
    half = torch.empty((), device=cuda, dtype=torch.bfloat16)
    half.fill_(0.25)
    with torch.inference_mode():
        third = torch.nn.init.constant_(torch.empty(2, device=cuda), 0.5)
        third[1] = 4
    return [bool((noise >= 2).all()), scale.item(), moved.item(), eight.float().item(),
            float(half), half.to(torch.float32).mul(4).item(), third.tolist()]
found = [fills()]
thread = threading.Thread(target=lambda: found.append(fills()))
thread.start(); thread.join()
with torch.device("cuda"):
    found.append(fills())
"""
    found, reads = run(tmp_path, code)
    assert found == [[True, 0.5, -2.0, 1.5, 0.25, 1.0, [0.5, 4.0]]] * 3
    # The noise alone rests on random numbers.
    assert {op for _, op, _, _ in reads} == {"__bool__"}
