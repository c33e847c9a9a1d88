"""One process as rank r of N, with fake tensors."""

from __future__ import annotations

import json

import pytest
import torch.distributed as dist
from support.checkout import ROOT
from support.phantoms import needs_cuda_build
from support.programs import Programs

pytestmark = [
    needs_cuda_build,
    pytest.mark.skipif(not dist.is_available(), reason="needs torch.distributed"),
]

BENCH = ROOT / "bench" / "conformance"

#: Says what it found in its last line.
COLLECTIVES = """
    import json, os, sys
    import floodmark

    facts = {}
    hook = sys.excepthook
    with floodmark.estimate(engine="fake", world=1024, rank=1023, path="all.flood") as est:
        import torch
        import torch.distributed as dist
        import torch.distributed._functional_collectives as functional
        from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

        rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
        dist.init_process_group("cpu:gloo,cuda:nccl")
        facts["rank"] = [dist.get_rank(), dist.get_world_size(), rank, world, device.index]

        one = torch.ones(4, device=device)
        level = est.level(str(device))[0]
        work = dist.all_reduce(one, async_op=True)
        work.wait()
        dist.broadcast(one, src=0)
        dist.reduce(one, dst=3)
        whole = torch.empty(4 * world, device=device)
        dist.all_gather_into_tensor(whole, one)
        dist.reduce_scatter_tensor(one, whole)
        dist.all_gather([torch.empty_like(one) for _ in range(world)], one)
        dist.all_to_all_single(torch.empty_like(whole), whole)
        dist.barrier()
        dist.send(one, dst=0)
        dist.recv(one, src=0)
        sends = [dist.P2POp(dist.isend, one, 0), dist.P2POp(dist.irecv, whole, 1)]
        for request in dist.batch_isend_irecv(sends):
            request.wait()
        dist.isend(one, 0).wait()
        dist.irecv(one, 0).wait()
        dist.all_reduce_coalesced([one, whole])
        with dist._coalescing_manager(device=device):
            dist.all_reduce(one)
            dist.all_reduce(whole)
        group = dist.group.WORLD
        group.allgather_into_tensor_coalesced([whole], [one]).wait()
        group.reduce_scatter_tensor_coalesced([one], [whole]).wait()
        facts["left"] = est.level(str(device))[0] - level - 16 * world

        mesh = init_device_mesh("cuda", (128, 8), mesh_dim_names=("outer", "inner"))
        facts["mesh"] = [mesh.get_coordinate(), mesh["inner"].size()]
        facts["ranks"] = dist.get_process_group_ranks(mesh.get_group("inner"))
        own = DeviceMesh("cuda", torch.arange(world).view(8, 128))
        facts["own"] = list(own.get_coordinate())
        gathered = functional.all_gather_tensor(one, 0, (mesh, 1))
        facts["functional"] = list(gathered.shape)
        facts["summed"] = list(functional.all_reduce(one, "sum", group).shape)

        few = dist.new_group([0, 1, rank], backend="gloo")
        many, _ = dist.new_subgroups(group_size=128)
        facts["groups"] = [dist.get_rank(few), dist.get_world_size(few), dist.get_backend(few)]
        facts["many"] = dist.get_world_size(many)
        dist.monitored_barrier(few)

        objects, sent, got = [None] * world, ["mine"], [None]
        dist.all_gather_object(objects, {"of": rank})
        dist.broadcast_object_list(sent, src=0)
        dist.gather_object("x", None, dst=0)
        dist.scatter_object_list(got, [f"for {i}" for i in range(world)], src=rank)
        facts["objects"] = [objects[0], len(objects), sent, got]
        # The program never destroys the group.
    facts["is_over"] = not dist.is_initialized()
    facts["restored"] = sys.excepthook is hook and "RANK" not in os.environ
    facts["notes"] = str(est)
    print(json.dumps(facts))
"""


def facts_of(programs, source):
    """What a program says last. cuBLAS keeps no workspace: it would be in every figure."""
    environment = {"PYTHONPATH": path_of(programs), "CUBLAS_WORKSPACE_CONFIG": ":0:0"}
    done = programs.run(source, env=environment)
    return json.loads(done.stdout.splitlines()[-1])


def path_of(programs):
    """Programs find what lies in `bench/conformance`."""
    before = programs.environment.get("PYTHONPATH", "")
    return f"{BENCH}:{before}" if before else str(BENCH)


def test_the_last_of_a_thousand_ranks_needs_no_other_rank(programs):
    facts = facts_of(programs, COLLECTIVES)
    assert facts["rank"] == [1023, 1024, 1023, 1024, 7]
    assert facts["left"] == 0, "collectives keep nothing"
    assert facts["mesh"] == [[127, 7], 8]
    assert facts["ranks"] == list(range(1016, 1024))
    assert facts["own"] == [7, 127]
    assert facts["functional"] == [32]
    assert facts["summed"] == [4]
    assert facts["groups"] == [2, 3, "gloo"]
    assert facts["many"] == 128
    assert facts["objects"] == [{"of": 1023}, 1024, ["mine"], ["for 1023"]]
    assert facts["is_over"]
    assert facts["restored"]
    assert "Objects that another rank would have broadcast were left as they were" in facts["notes"]


SHARES = """
    import json
    import distributed_programs as programs
    import fake_distributed

    # Rows that no number of ranks divides.
    programs.SIZE = programs.Size(
        width=64, layers=2, heads=8, inner=168, vocabulary=101, batch=2, tokens=16
    )
    programs.STEPS = 1
    import distributed_closed_forms as forms

    found = []
    for way, world, rank in [
        ("fsdp2", 8, 0), ("fsdp2", 128, 127), ("tp", 8, 7), ("one_f_one_b", 2, 1),
    ]:
        measured = fake_distributed.measure("fake", way, world, rank)
        must = {what: size for what, size in forms.FORMS[way](world, rank).items() if size}
        found.append([way, world, rank, measured["categories"], must])
    print(json.dumps({"shares": found, "buckets": facts}))
"""

#: The shim that answers for CUDA must be there before torch is.
SHIMMED = """
    import floodmark
    with floodmark.estimate(engine="fake", gpus=8, path="first.flood"):
        pass
"""


BUCKETS = """
    import json

    with floodmark.estimate(engine="fake", world=8, path="a.flood") as est:
        import torch
        import torch.distributed as dist
        from torch import nn

        device = torch.device("cuda", 0)
        dist.init_process_group("nccl")

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.one = nn.Linear(256, 256, bias=False)
                self.two = nn.Linear(256, 256, bias=False)
                self.unused = nn.Linear(512, 256, bias=False)
                self.register_buffer("count", torch.zeros(1))

            def forward(self, x):
                return self.two(self.one(x))

        def level():
            return est.level("cuda:0")[0]

        def held(ask, **options):
            with device:
                net = Net()
            if not options.get("find_unused_parameters"):
                net.unused = None
            before = level()
            model = nn.parallel.DistributedDataParallel(net, device_ids=[0], **options)
            built = level() - before
            for _ in range(3):
                model.zero_grad()
                model(torch.empty(4, 256, device=device)).sum().backward()
            return [built, level() - before, ask(model)]

        def storages(model):
            return len({p.grad.untyped_storage()._cdata for p in model.parameters()
                        if p.grad is not None})

        small = {"bucket_cap_mb": 0.1}
        facts = {
            "plain": held(storages),
            "views": held(storages, gradient_as_bucket_view=True),
            "small": held(storages, gradient_as_bucket_view=True, **small),
            "unused": held(lambda m: m.module.unused.weight.grad is None,
                           find_unused_parameters=True),
            "static": held(storages, static_graph=True),
        }

        def halved(state, bucket):
            facts["hook"] = [bucket.is_last(), bucket.index(), len(bucket.gradients())]
            future = torch.futures.Future()
            future.set_result(bucket.buffer())
            return future

        model = nn.parallel.DistributedDataParallel(nn.Linear(8, 8, device=device))
        model.register_comm_hook(None, halved)
        with model.no_sync():
            model(torch.empty(1, 8, device=device)).sum().backward()
        facts["before"] = "hook" in facts
        model(torch.empty(1, 8, device=device)).sum().backward()
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """What training says, all in one process."""
    return facts_of(Programs(tmp_path_factory.mktemp("trained")), SHIMMED + BUCKETS + SHARES)


def test_a_rank_holds_what_is_its_share(trained):
    assert len(trained["shares"]) == 4
    for way, world, rank, categories, must in trained["shares"]:
        what = {name: size for name, size in categories.items() if name != "unknown"}
        assert {name: what.get(name) for name in must} == must, (way, world, rank)
        if rank == 127:
            assert "optimizer state" not in what, "no row is left for the last rank"


def test_replicas_have_buckets(trained):
    facts = trained["buckets"]
    gradients = 2 * 256 * 256 * 4
    # A bucket of all gradients; after the passes the gradients too, or views of it.
    assert facts["plain"] == [gradients, 2 * gradients, 2]
    assert facts["views"] == [gradients, gradients, 1]
    # A bucket for each, once the order is known.
    assert facts["small"] == [gradients, gradients, 2]
    built, after, is_untouched = facts["unused"]
    unused = 512 * 256 * 4
    assert built == gradients + unused + 512, "and a map of what was used"
    assert after == built + gradients
    assert is_untouched
    assert facts["static"] == [gradients + 512, 2 * gradients + 512, 2]
    assert facts["before"] is False
    assert facts["hook"] == [True, 0, 2]


RESTORED = """
    import json, os, sys
    import floodmark

    with floodmark.estimate(engine="fake", gpus=8, path="first.flood"):
        import torch
    import torch.distributed as dist
    import torch.multiprocessing.spawn
    from torch.distributed import all_gather_object, distributed_c10d, init_process_group
    from torch.distributed import device_mesh
    import torch.distributed.fsdp, torch.distributed.tensor.parallel
    from torch.distributed.fsdp import _flat_param, _runtime_utils
    from torch.nn import parameter

    try:
        from torch.distributed.tensor import _sharding_prop
    except ImportError:
        from torch.distributed._tensor import _sharding_prop

    owners = [dist, distributed_c10d, device_mesh, device_mesh.DeviceMesh, _flat_param]
    owners += [_runtime_utils, distributed_c10d.Backend, torch.multiprocessing, parameter]
    owners += [torch._C._distributed_c10d, sys.modules[__name__], _sharding_prop]
    owners += [_sharding_prop.ShardingPropagator, parameter._ParameterMeta]

    OWN = {"found", "facts", "est", "before", "options", "objects", "case", "model"}
    OWN.add("__warningregistry__")

    def shot():
        found = {("environ", name): value for name, value in os.environ.items()}
        for owner in owners:
            for name, value in list(vars(owner).items()):
                if name in OWN or name == "__builtins__":
                    continue
                same = repr(value) if type(value) in (dict, list, str) else ""
                found[str(owner)[:60], name] = (id(value), same)
        return found

    def lasting(pairs):
        # What torch itself counts.
        return [str(key) for key, _ in pairs if key[1] not in ("_pg_counter", "_world")]

    facts = {}
    before = shot()
    for case in ("never", "done", "raised", "alone"):
        try:
            options = {} if case == "alone" else {"world": 8, "rank": 3}
            with floodmark.estimate(engine="fake", path=case + ".flood", **options) as est:
                if case == "alone":
                    init_process_group("gloo", rank=0, world_size=1, init_method="tcp://nowhere:1")
                    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 3))
                    model(torch.ones(2, 3)).sum().backward()
                    facts["alone"] = [dist.get_world_size(), type(model.reducer).__module__]
                elif case != "never":
                    # Under the name that it was imported by, before the block.
                    init_process_group("nccl")
                    all_gather_object(objects := [None] * 8, 5)
                    facts[case] = [dist.get_rank(), objects]
                if case == "raised":
                    raise KeyError("the program's own")
        except KeyError:
            pass
        facts["changed after " + case] = lasting(set(shot().items()) ^ set(before.items()))
        facts["initialized after " + case] = dist.is_initialized()
    print(json.dumps(facts))
"""


def test_all_is_as_it_was_afterwards(programs):
    facts = facts_of(programs, RESTORED)
    assert facts["done"] == facts["raised"] == [3, [5] * 8]
    # Also in the last of many blocks.
    assert facts["alone"] == [1, "floodmark.world.ddp_reducer"]
    for case in ("never", "done", "raised", "alone"):
        assert facts["changed after " + case] == []
        assert facts["initialized after " + case] is False
