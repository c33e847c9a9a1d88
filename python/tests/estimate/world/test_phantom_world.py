"""One process as rank r of N, on a simulated GPU."""

from __future__ import annotations

import json

import pytest
import torch.distributed as dist
from support.phantoms import needs_cuda_build

pytestmark = [
    needs_cuda_build,
    pytest.mark.skipif(not dist.is_available(), reason="needs torch.distributed"),
]

#: What every program begins with, and how it gives back what it found.
BEGINNING = """
    import json, os, sys
    import torch
    import torch.distributed as dist
    from torch import nn

    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)

    def write_facts(**facts):
        with open(sys.argv[1], "w") as file:
            json.dump(facts, file)

    def local(tensor):
        return tensor.to_local() if hasattr(tensor, "to_local") else tensor
"""


def as_rank(programs, rank, world, body):
    """Run the program as that rank; what it wrote."""
    programs.write(BEGINNING + body, "program.py")
    ranks = ("--rank", str(rank), "--world", str(world))
    written = programs.folder / "facts.json"
    done = programs.floodmark(
        "estimate", "--json", "-o", "a.flood", "--force", *ranks, "program.py", str(written)
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["ended"] == "done", found["error"] + done.stderr
    return json.loads(written.read_text()), found, done.stderr


COLLECTIVES = """
    dist.init_process_group("cpu:gloo,cuda:nccl")
    facts = {"rank": dist.get_rank(), "world": dist.get_world_size()}

    total = torch.tensor([3, -4], device=device)
    dist.all_reduce(total)
    largest = torch.tensor([rank], device=device)
    dist.all_reduce(largest, op=dist.ReduceOp.MAX)
    shares = torch.zeros(2 * world, dtype=torch.long, device=device)
    dist.all_gather_into_tensor(shares, torch.tensor([rank, 7], device=device))
    facts |= {"total": total.tolist(), "largest": largest.item(), "shares": shares.tolist()}

    objects = [None] * world
    dist.all_gather_object(objects, {"of": "ours"})
    facts["objects"] = objects[0] == objects[-1] == {"of": "ours"}

    on_host = torch.tensor([2])
    dist.all_reduce(on_host)
    facts["on_host"] = on_host.item()
    gloo = dist.new_group(list(range(world)), backend="gloo")
    facts["backends"] = [dist.get_backend(), dist.get_backend(gloo)]
    dist.monitored_barrier(gloo)
    dist.barrier()

    from torch.distributed.device_mesh import init_device_mesh
    mesh = init_device_mesh("cuda", (world // 8, 8), mesh_dim_names=("outer", "inner"))
    facts["mesh"] = [mesh.get_coordinate(), dist.get_world_size(mesh.get_group("inner"))]

    store = dist.TCPStore("no-such-host", 1234, world, rank == 0)
    store.set(f"of/{rank}", "mine")
    store.wait(["of/5"])
    facts["store"] = store.get("of/5").decode()
    facts["unknown"] = store.get("who").decode()
    sent = [rank]
    dist.broadcast_object_list(sent, src=0)
    facts["sent"] = sent
    write_facts(**facts)
    # The program never destroys the groups.
"""


def test_the_last_of_a_thousand_ranks_needs_no_other_rank(programs):
    facts, found, words = as_rank(programs, 1023, 1024, COLLECTIVES)
    assert (found["rank"], found["world_size"]) == (1023, 1024)
    assert (facts["rank"], facts["world"]) == (1023, 1024)
    assert facts["total"] == [3 * 1024, -4 * 1024]
    assert facts["largest"] == 1023
    assert facts["shares"] == [1023, 7] * 1024
    assert facts["objects"]
    assert facts["on_host"] == 2048
    assert facts["backends"] == ["cpu:gloo,cuda:nccl", "gloo"]
    assert facts["mesh"] == [[127, 7], 8]
    assert facts["store"] == "mine"
    # What another rank alone can know is said.
    assert (facts["unknown"], facts["sent"]) == ("0", [1023])
    assert "the store's `who`, which another rank would set, was assumed to be 0" in words
    assert "objects that another rank would have broadcast were left as they were" in words


PARALLEL = """
    import gc

    facts = {}

    def train(model, steps):
        optimizer = torch.optim.AdamW(model.parameters())
        gc.collect()
        torch.cuda.reset_peak_memory_stats()
        for _ in range(steps):
            model(torch.randn(4, 1024, device=device)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        states = [s for state in optimizer.state.values() for s in state.values() if s.dim()]
        kept = [local(tensor) for tensor in [*model.parameters(), *states]]
        return {
            "kept": sum(tensor.numel() * tensor.element_size() for tensor in kept),
            "now": torch.cuda.memory_allocated(),
            "peak": torch.cuda.max_memory_allocated(),
        }

    def layers():
        with device:
            return nn.Sequential(*(nn.Linear(1024, 1024, bias=False) for _ in range(8)))

    def sharded():
        try:
            from torch.distributed.fsdp import fully_shard
        except ImportError:
            from torch.distributed._composable.fsdp import fully_shard
        model = layers()
        for layer in model:
            fully_shard(layer)
        fully_shard(model)
        return model

    dist.init_process_group("nccl", device_id=device)
    train(nn.Linear(1024, 1024, device=device), steps=1)
    group = dist.new_group([0, 1, 2, rank])
    count = torch.ones(1, dtype=torch.long, device=device)
    dist.all_reduce(count, group=group)
    facts["group"] = [dist.get_rank(group), dist.get_world_size(group), count.item()]

    facts["shard"] = train(sharded(), steps=2)
    gc.collect()
    replica = nn.parallel.DistributedDataParallel(layers(), device_ids=[device.index])
    facts["replica"] = train(replica, steps=3)
    del replica

    try:
        from torch.distributed.pipelining import PipelineStage, Schedule1F1B
        linear = nn.Linear(512, 512, bias=False, device=device)
        shape = torch.empty(2, 512, device="meta", requires_grad=True)
        shapes = {"input_args": (shape,), "output_args": (shape,)}
        stage = PipelineStage(linear, rank, world, device, **shapes)
        Schedule1F1B(stage, world, loss_fn=lambda output, _: output.sum()).step()
        facts["stage"] = list(linear.weight.grad.shape)
        del stage, linear, shapes, shape
    except ImportError:
        facts["stage"] = [512, 512]
    try:
        dist.recv_object_list([None], src=4)
    except RuntimeError as error:
        facts["error"] = str(error)
    dist.destroy_process_group()

    from torch.testing._internal.distributed.fake_pg import FakeStore
    dist.init_process_group("fake", rank=rank, world_size=world, store=FakeStore())
    gc.collect()
    facts["torchs_fake"] = train(sharded(), steps=2)
    write_facts(**facts)
"""


def test_a_rank_keeps_what_is_its_share(programs):
    facts, found, _ = as_rank(programs, 5, 64, PARALLEL)
    parameters = 8 * 1024 * 1024
    # Weights and two states of four bytes; a replica has buckets for its gradients too.
    replica, shard = facts["replica"], facts["shard"]
    assert replica["kept"] == 12 * parameters
    assert 0 <= replica["now"] - 16 * parameters < 80 << 20, "workspaces of cuBLAS"
    assert shard["kept"] == 12 * parameters // 64
    # torch's own stand-in for a group, which moves nothing, needs as much in a step.
    other = facts["torchs_fake"]
    assert shard["peak"] - shard["now"] == other["peak"] - other["now"]
    assert shard["kept"] == other["kept"]
    assert facts["group"] == [3, 4, 4], "a group of four counts four"
    assert facts["stage"] == [512, 512]
    assert "hint: in a pipeline, give `PipelineStage`" in facts["error"]
    assert found["devices"][0]["device"] == "cuda:5"


PIPELINE = """
    from torch.distributed.pipelining import PipelineStage, ScheduleInterleaved1F1B

    dist.init_process_group("nccl", device_id=device)
    name = ["the first one's"] if rank == 0 else [None]
    dist.broadcast_object_list(name, src=0, device=device)
    share = [None]
    dist.scatter_object_list(share, list("abc") if rank == 0 else None, src=0)

    shapes = gradients = None
    if hasattr(PipelineStage, "_shape_inference"):
        # Two stages for each rank, without shapes: each learns them from the one before.
        widths = [32, 64, 96, 128, 160, 192, 224]
        modules = {
            index: nn.Linear(widths[index], widths[index + 1], device=device)
            for index in (rank, rank + world)
        }
        stages = [
            PipelineStage(module, index, 2 * world, device) for index, module in modules.items()
        ]
        schedule = ScheduleInterleaved1F1B(stages, 6, loss_fn=lambda output, _: output.sum())
        given = [torch.ones(12, 32, device=device)] if rank == 0 else []
        last = {"target": torch.ones(12, device=device)} if rank == world - 1 else {}
        schedule.step(*given, **last)
        shapes = [list(stage.inputs_meta[0].shape) for stage in stages]
        gradients = [list(module.weight.grad.shape) for module in modules.values()]
    write_facts(name=name, share=share, shapes=shapes, gradients=gradients)
"""


@pytest.mark.parametrize("rank", [0, 2])
def test_a_rank_whose_objects_are_needed_runs_too(programs, rank):
    facts, found, words = as_rank(programs, rank, 3, PIPELINE)
    assert (facts["name"], facts["share"]) == (["the first one's"], ["abc"[rank]])
    if facts["shapes"] is not None:  # torch 2.4 does not infer them
        widths = [32, 64, 96, 128, 160, 192, 224]
        stages = (rank, rank + 3)
        assert facts["shapes"] == [[2, widths[stage]] for stage in stages]
        assert facts["gradients"] == [[widths[stage + 1], widths[stage]] for stage in stages]
        sender = (rank - 1) % 3
        assert f"rank {sender} runs too, because rank {rank} waits for its objects" in words
    assert len(found["devices"]) == 1, "it is not recorded"


SPAWNED = """
    def work(index, size):
        dist.init_process_group("nccl", init_method="tcp://no-such-host:1", rank=index,
                                world_size=size)
        dist.all_reduce(torch.ones(8, device=device))
        write_facts(index=index, rank=dist.get_rank(), world=dist.get_world_size())

    if __name__ == "__main__":
        torch.multiprocessing.spawn(work, args=(world,), nprocs=world)
"""


def test_of_spawned_processes_one_runs_here(programs):
    facts, _, words = as_rank(programs, 2, 4, SPAWNED)
    assert facts == {"index": 2, "rank": 2, "world": 4}
    assert words.count("of 4 processes that would be spawned, number 2 runs here") == 1


class TestStore:
    """The store alone, in this process."""

    @pytest.fixture
    def store(self):
        from floodmark.world.store import store_class

        self.notes = []
        return store_class(dist.Store, 3, 8, self.notes.append)()

    def test_what_another_rank_would_set_is_ours(self, store):
        inside = dist.PrefixStore("group 1", store)
        inside.set("port/3", "1234")
        assert inside.get("port/7") == b"1234"
        assert self.notes == []

    def test_an_unknown_value_is_noted(self, store):
        assert store.get("who") == b"0"
        assert len(self.notes) == 1
        assert "`who`" in self.notes[0]

    def test_a_count_is_ours_until_we_look_at_it(self, store):
        inside = dist.PrefixStore("barrier", store)
        assert inside.add("arrived", 1) == 1
        assert inside.add("arrived", 0) == 8

    def test_no_rank_waits(self, store):
        dist.PrefixStore("a", store).wait(["never"])
        assert dist.PrefixStore("a", store).check(["never"])

    def test_values_are_compared_and_deleted(self, store):
        inside = dist.PrefixStore("a", store)
        assert inside.compare_set("key", "", "first") == b"first"
        assert inside.compare_set("key", "other", "second") == b"first"
        assert inside.num_keys() == 1
        assert inside.delete_key("key")
        assert inside.num_keys() == 0
