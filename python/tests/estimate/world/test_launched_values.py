"""Values of small tensors between ranks that a launcher starts as processes."""

from __future__ import annotations

import json

import pytest
import torch.distributed as dist
from support.phantoms import needs_cuda_build

pytestmark = [
    needs_cuda_build,
    pytest.mark.skipif(not dist.is_available(), reason="needs torch.distributed"),
]

LAUNCHER = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
ESTIMATE = ("estimate", "--json", "--gpus", "2", "-o", "a")

#: What every program begins with. With `gloo` as its argument it runs on the CPU, without us.
BEGINNING = """
    import json, os, sys, time
    from datetime import timedelta
    import torch
    import torch.distributed as dist

    rank = int(os.environ["LOCAL_RANK"])
    on_host = "gloo" in sys.argv
    device = torch.device("cpu") if on_host else torch.device("cuda", rank)
    if not on_host:
        torch.cuda.set_device(device)
    facts = {}

    def write_facts():
        with open(f"facts-{rank}.json", "w") as file:
            json.dump(facts, file)

    def end():
        write_facts()
        dist.destroy_process_group()

    def numbers(*values, dtype=torch.long):
        return torch.tensor(values, dtype=dtype, device=device)
"""

COLLECTIVES = """
    dist.init_process_group("gloo" if on_host else "nccl")
    other, Op = 1 - rank, dist.ReduceOp

    x = numbers(5, 6) if rank == 0 else numbers(-1, -1)
    dist.broadcast(x, src=0)
    facts["broadcast"] = x.tolist()
    x = numbers(5.5) if rank == 1 else torch.empty(1, dtype=torch.long, device=device)
    dist.broadcast(x, src=1)
    facts["broadcast of the second"] = x.item()

    shares = [torch.empty(2, dtype=torch.long, device=device) for _ in range(2)]
    dist.all_gather(shares, numbers(rank, 7 + rank))
    facts["all_gather"] = [share.tolist() for share in shares]
    whole = torch.empty(4, dtype=torch.bool, device=device)
    mine = numbers(rank == 0, rank == 1, dtype=torch.bool)
    dist.all_gather_into_tensor(whole, mine)
    facts["all_gather_into_tensor"] = whole.tolist()
    shares = [numbers(0.0, dtype=torch.float) for _ in range(2)] if rank == 1 else None
    dist.gather(numbers(rank + 0.5, dtype=torch.float), shares, dst=1)
    facts["gather"] = [share.item() for share in shares or ()]
    x = numbers(0, 0)
    dist.scatter(x, [numbers(1, 2), numbers(3, 4)] if rank == 1 else None, src=1)
    facts["scatter"] = x.tolist()

    operations = {"sum": Op.SUM, "product": Op.PRODUCT, "min": Op.MIN, "max": Op.MAX}
    kinds = (torch.int32, torch.long, torch.uint8, torch.float, torch.double, torch.half)
    for name, operation in operations.items():
        for kind in kinds:
            x = numbers(2 + rank, 9 - rank, dtype=kind)
            dist.all_reduce(x, operation)
            facts[f"all_reduce {name} {kind}"] = x.tolist()
    for name in ("min", "max"):
        x = numbers(True, rank == 1, False, dtype=torch.bool)
        dist.all_reduce(x, operations[name])
        facts[f"all_reduce {name} bool"] = x.tolist()
    # The CPU has it in single precision.
    x = numbers(1.5 + rank, -2.25, dtype=torch.float if on_host else torch.bfloat16)
    dist.all_reduce(x)
    facts["all_reduce in bf16"] = x.tolist()
    x = numbers(2 + rank, 9 - rank)
    dist.reduce(x, dst=1)
    # What other ranks have then is not defined.
    facts["reduce"] = x.tolist() if rank == 1 else None
    x = numbers(rank + 1, 10 + rank, 20 + rank, 30 + rank)
    if on_host:
        dist.all_reduce(x)
        facts["reduce_scatter"] = x.chunk(2)[rank].tolist()
    else:
        found = numbers(0, 0)
        dist.reduce_scatter_tensor(found, x)
        facts["reduce_scatter"] = found.tolist()
        dist.reduce_scatter(found, list(x.chunk(2)))
        assert found.tolist() == facts["reduce_scatter"]

    # Rank 0 sends 1 and 3 rows, rank 1 sends 2 and 2.
    sent = [1, 3] if rank == 0 else [2, 2]
    given = numbers(*range(10 * rank, 10 * rank + 8)).view(4, 2)
    got = torch.zeros(3 if rank == 0 else 5, 2, dtype=torch.long, device=device)
    dist.all_to_all_single(got, given, [1, 2] if rank == 0 else [3, 2], sent)
    facts["all_to_all_single"] = got.tolist()
    got = [numbers(0, 0), numbers(0, 0)]
    given = [numbers(rank, 0), numbers(rank, 1)]
    if on_host:
        both = torch.cat(got)
        dist.all_to_all_single(both, torch.cat(given))
        got = both.chunk(2)
    else:
        dist.all_to_all(got, given)
    facts["all_to_all"] = [share.tolist() for share in got]

    x = numbers(3, 4) if rank == 0 else numbers(0, 0)
    dist.send(x, dst=1) if rank == 0 else dist.recv(x, src=0)
    facts["recv"] = x.tolist()
    # Each rank asks before it sends: no call may wait but `wait`.
    got = numbers(0)
    if rank == 0:
        receiving, sending = dist.irecv(got, src=1), dist.isend(numbers(8), dst=1)
    else:
        receiving, sending = dist.irecv(got, src=0), dist.isend(numbers(9), dst=0)
    receiving.wait(), sending.wait()
    facts["irecv"] = got.item()
    got, to = numbers(0), numbers(100 + rank)
    ops = [dist.P2POp(dist.irecv, got, other), dist.P2POp(dist.isend, to, other)]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    facts["batch_isend_irecv"] = got.item()
    x = numbers(rank, rank)
    work = dist.all_reduce(x, async_op=True)
    work.wait()
    facts["async_op"] = [x.tolist(), work.is_completed()]
    group = dist.new_group([1, 0])
    x = numbers(1 + rank)
    dist.broadcast(x, src=1, group=group)
    facts["of a group"] = x.item()
    # A rank of gloo that leaves earlier ends the other one.
    dist.barrier()
    end()
"""


def facts_of(programs, done):
    """What both ranks wrote."""
    assert done.returncode == 0, done.stdout + done.stderr
    names = [programs.folder / f"facts-{rank}.json" for rank in (0, 1)]
    found = [json.loads(name.read_text()) for name in names]
    for name in names:
        name.unlink()
    return found


def test_collectives_of_launched_ranks_have_the_values_that_gloo_gives(programs):
    programs.write(BEGINNING + COLLECTIVES, "program.py")
    expected = facts_of(programs, programs.python(*LAUNCHER, "program.py", "gloo"))
    done = programs.floodmark(*ESTIMATE, *LAUNCHER, "program.py")
    found = facts_of(programs, done)
    for rank in (0, 1):
        assert found[rank] == expected[rank]
    # What the other rank computed counts as computed.
    assert json.loads(done.stdout)["reads"] == []


UNKNOWN = """
    dist.init_process_group("nccl")
    # A long sum of floats is not followed.
    x = torch.nn.Linear(4096, 1, device=device)(torch.rand(4096, 4096, device=device)).sum() * 3
    lengths = x.detach().long().view(1)
    total = numbers(4)
    dist.broadcast(lengths if rank == 0 else total, src=0)
    facts["unknown"] = total.item() if rank == 1 else 0
    # Long tensors take their memory alone.
    long = torch.full((5 << 20,), 3 + rank, device=device, dtype=torch.long)
    dist.broadcast(long, src=0)
    end()
"""


def test_what_another_rank_does_not_know_is_listed(programs):
    programs.write(BEGINNING + UNKNOWN, "program.py")
    done = programs.floodmark(*ESTIMATE, *LAUNCHER, "program.py")
    assert facts_of(programs, done)[1]["unknown"] == 0
    reads = json.loads(done.stdout)["reads"]
    assert [read["op"] for read in reads] == ["item"]


ENDS_EARLY = """
    dist.init_process_group("nccl", timeout=timedelta(seconds=SECONDS))
    x = numbers(1 + rank)
    dist.all_reduce(x)
    facts["sum"] = x.item()
    # The second one is never used by rank 1.
    groups = [None, dist.new_group([0, 1])]
    if rank == 0:
        for group in groups * 2:
            dist.broadcast(x, src=1, group=group)
        end()
    else:
        write_facts()
        LEAVE
"""


@pytest.mark.parametrize(
    ("leave", "seconds", "why"),
    [("sys.exit()", 600, "it has ended"), ("time.sleep(6)", 2, "it sent none for 2 s")],
    ids=["ended", "busy"],
)
def test_a_rank_that_waits_in_vain_goes_on_and_names_the_call(programs, leave, seconds, why):
    source = ENDS_EARLY.replace("SECONDS", str(seconds)).replace("LEAVE", leave)
    programs.write(BEGINNING + source, "program.py")
    done = programs.floodmark(*ESTIMATE, *LAUNCHER, "program.py")
    assert [facts["sum"] for facts in facts_of(programs, done)] == [3, 3]
    # Once for each group.
    assert done.stderr.count(f"`broadcast` got no value from rank 1: {why}") == 2, done.stderr


SPAWNED = """
    import socket
    import torch
    import torch.distributed as dist

    def rank_of(rank, port):
        torch.cuda.set_device(rank)
        store = dist.TCPStore("127.0.0.1", port, 2, is_master=rank == 0)
        dist.init_process_group("nccl", store=store, rank=rank, world_size=2)
        x = torch.full((1,), 1 + rank, device="cuda")
        dist.all_reduce(x)
        assert x.item() == 3
        if rank != ENDS:
            for _ in range(3):
                dist.broadcast(x, src=ENDS)
            dist.destroy_process_group()

    if __name__ == "__main__":
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        torch.multiprocessing.spawn(rank_of, (port,), nprocs=2)
"""


# Rank 0 runs the store: it may answer long enough to say that the rank has ended.
@pytest.mark.parametrize(("ends", "why"), [(0, ""), (1, "it has ended")])
def test_a_spawned_rank_goes_on_when_another_one_ends(programs, ends, why):
    programs.write(SPAWNED.replace("ENDS", str(ends)), "program.py")
    done = programs.floodmark("estimate", "--gpus", "2", "-o", "a", "program.py")
    assert done.returncode == 0, done.stderr
    message = f"`broadcast` got no value from rank {ends}: {why}"
    assert done.stderr.count(message) == 1, done.stderr
