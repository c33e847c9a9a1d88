"""Ranks that a launcher starts as processes, each on a simulated GPU of its own."""

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

#: What every program begins with, and how it gives back what it found.
BEGINNING = """
    import json, os, sys
    import torch
    import torch.distributed as dist
    from torch import nn

    rank = int(os.environ["LOCAL_RANK"])
    device = torch.device("cuda", rank)
    torch.cuda.set_device(device)

    def write_facts(**facts):
        with open(f"facts-{rank}.json", "w") as file:
            json.dump(facts, file)
"""


def facts_of(programs, done):
    """What both ranks wrote."""
    assert done.returncode == 0, done.stdout + done.stderr
    names = [programs.folder / f"facts-{rank}.json" for rank in (0, 1)]
    return [json.loads(name.read_text()) for name in names]


GROUPS = """
    # Eager: the communicator is made at once, and those of groups are split from it.
    dist.init_process_group("nccl", device_id=device)
    facts = {}
    for name, ranks in [("range", range(2)), ("list", [0, 1]), ("alone", [rank])]:
        groups = [dist.new_group(ranks)] if name != "alone" else [
            dist.new_group([one]) for one in range(2)
        ]
        group = groups[rank if name == "alone" else 0]
        x = torch.ones(4, dtype=torch.long, device=device)
        dist.all_reduce(x, group=group)
        facts[name] = [dist.get_world_size(group), x.tolist()]
    dist.barrier()
    write_facts(**facts)
    dist.destroy_process_group()
"""


def test_a_launched_rank_splits_its_communicator(programs):
    programs.write(BEGINNING + GROUPS, "program.py")
    estimate = ("-m", "floodmark", "estimate", "--gpus", "2", "-o", "a", "program.py")
    done = programs.python(*LAUNCHER, *estimate)
    for facts in facts_of(programs, done):
        assert facts["range"] == facts["list"] == [2, [2] * 4]
        assert facts["alone"] == [1, [1] * 4]


OBJECTS = """
    dist.init_process_group("nccl")
    facts = {}
    gathered = [None, None]
    dist.all_gather_object(gathered, {"of": rank, "long": "x" * (1 + 99_999 * rank)})
    facts["all_gathered"] = [[one["of"], len(one["long"])] for one in gathered]
    sent = [{"a": 1}, "b"] if rank == 0 else [None, None]
    dist.broadcast_object_list(sent, src=0, device=device)
    facts["broadcast"] = sent
    shares = [None, None] if rank == 1 else None
    dist.gather_object(f"of {rank}", shares, dst=1)
    facts["gathered"] = shares
    share = [None]
    dist.scatter_object_list(share, ["for 0", "for 1"] if rank == 1 else None, src=1)
    facts["scattered"] = share
    facts["received"] = []
    if hasattr(dist, "send_object_list"):
        # The second is larger than what a store takes at once.
        for value in (["first", 2], ["x" * (9 << 20)]):
            if rank == 0:
                dist.send_object_list(value, dst=1)
            else:
                got = [None] * len(value)
                dist.recv_object_list(got, src=0)
                facts["received"].append(got == value)

    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
    if hasattr(PipelineStage, "_shape_inference"):
        module = nn.Linear(64, 64 + 64 * rank, device=device)
        stage = PipelineStage(module, rank, 2, device)
        schedule = ScheduleGPipe(stage, 2, loss_fn=lambda output, _: output.sum())
        if rank == 0:
            schedule.step(torch.ones(8, 64, device=device))
        else:
            schedule.step(target=torch.ones(8, 64, device=device))
        metas = (stage.inputs_meta[0], stage.get_outputs_meta()[0])
        facts["shapes"] = [list(meta.shape) for meta in metas]
        facts["gradient"] = list(module.weight.grad.shape)
    write_facts(**facts)
    dist.destroy_process_group()
"""


def test_objects_travel_between_launched_ranks(programs):
    programs.write(BEGINNING + OBJECTS, "program.py")
    done = programs.floodmark(
        "estimate", "--json", "--gpus", "2", "-o", "a", *LAUNCHER, "program.py"
    )
    first, second = facts_of(programs, done)
    assert first["all_gathered"] == second["all_gathered"] == [[0, 1], [1, 100_000]]
    assert first["broadcast"] == second["broadcast"] == [{"a": 1}, "b"]
    assert (first["gathered"], second["gathered"]) == (None, ["of 0", "of 1"])
    assert (first["scattered"], second["scattered"]) == (["for 0"], ["for 1"])
    assert all(second["received"])
    if "shapes" in first:  # torch 2.4 does not infer them
        # The second stage learnt the shape of its input from the first one.
        assert first["shapes"] == [[4, 64], [4, 64]]
        assert second["shapes"] == [[4, 64], [4, 128]]
        assert (first["gradient"], second["gradient"]) == ([64, 64], [128, 64])
    found = json.loads(done.stdout)
    assert (found["fits"], found["ended"], found["processes"]) == (True, "done", 2)
    # What came from the other rank counts as computed.
    assert found["reads"] == []
