"""Child processes of a program under `floodmark estimate` have the simulated GPU too."""

from __future__ import annotations

import json

import pytest
import torch
from support.answer_schema import check_answer
from support.namespaces import IN_OTHER_NAMESPACE, needs_namespaces
from support.phantoms import needs_cuda_build
from support.ports import kept_port

import floodmark

pytestmark = needs_cuda_build

MIB = 1 << 20


def estimate(programs, *words, **more):
    done = programs.floodmark("estimate", "--json", "-o", "a", "--force", *words, **more)
    assert done.stdout, done.stderr
    found = json.loads(done.stdout)
    check_answer("estimate", found)
    return done, found


#: What PyTorch's tutorial of DDP with `mp.spawn` does: a process a GPU, ranks as arguments.
SPAWNS = """
    import os, sys, torch
    import torch.multiprocessing as mp
    from torch.distributed import destroy_process_group, init_process_group
    from torch.nn.parallel import DistributedDataParallel
    from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

    def train(rank, world, port, epochs):
        os.environ["MASTER_ADDR"] = "localhost"
        os.environ["MASTER_PORT"] = port
        init_process_group(backend="nccl", rank=rank, world_size=world)
        torch.cuda.set_device(rank)
        data = TensorDataset(torch.rand(64, 20), torch.rand(64, 1))
        batches = DataLoader(data, batch_size=8, pin_memory=True, sampler=DistributedSampler(data))
        model = torch.nn.Linear(20, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
        model = DistributedDataParallel(model.to(rank), device_ids=[rank])
        for epoch in range(epochs):
            batches.sampler.set_epoch(epoch)
            for x, y in batches:
                optimizer.zero_grad()
                loss = torch.nn.functional.cross_entropy(model(x.to(rank)), y.to(rank))
                loss.backward()
                optimizer.step()
            if rank == 0:
                torch.save(model.module.state_dict(), "checkpoint.pt")
        destroy_process_group()

    if __name__ == "__main__":
        world = torch.cuda.device_count()
        mp.spawn(train, args=(world, sys.argv[1], 1), nprocs=world)
"""


def test_spawned_ranks_have_a_gpu_each_and_one_report(programs):
    programs.write(SPAWNS, "multigpu.py")
    with kept_port() as port:
        words = ["estimate", "--gpus", "4", "-o", "a.flood", "multigpu.py", str(port)]
        done = programs.floodmark(*words)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "Fits: NVIDIA H200 (simulated), 4 processes, finished after 2 steps"
    rows = [line.split() for line in lines if line.startswith("rank ")]
    assert [row[:3] for row in rows] == [["rank", str(n), f"cuda:{n}"] for n in range(4)]
    names = sorted(path.name for path in (programs.folder / "a").iterdir())
    assert names == [f"rank-{n:04}.flood" for n in range(4)]
    assert (programs.folder / "checkpoint.pt").exists()
    # Nothing is left beside the folder.
    assert not list(programs.folder.glob("a.*"))
    report = programs.floodmark("report", "a", "--rank", "3")
    assert "cuda:3" in report.stdout, report.stderr


#: Starts processes in the ways that its words name; each has another number of MiB on the GPU.
STARTS = """
    import json, multiprocessing, os, subprocess, sys, torch
    from torch.utils.data import DataLoader, Dataset

    def use(mib):
        kept = torch.empty(mib << 20, dtype=torch.uint8, device="cuda")
        print("used", mib, flush=True)

    class OnGpu(Dataset):
        def __len__(self):
            return 2

        def __getitem__(self, at):
            return torch.ones(1 << 20, device="cuda").sum().cpu()

    def python(code, **more):
        return subprocess.run([sys.executable, "-c", f"import os, starts; {code}"], **more)

    def main(how):
        if how == "child":
            use(64)
        elif how == "subprocess":
            subprocess.run([sys.executable, __file__, "child"], check=True)
        elif how == "leaves":
            python("starts.use(32); os._exit(0)")
        elif how == "killed":
            python("starts.use(16); os.kill(os.getpid(), 9)")
        elif how == "too much":
            python("starts.use(1 << 20)")
        elif how == "isolated":
            subprocess.run([sys.executable, "-I", __file__, "host"], check=True)
        elif how == "host":
            print("host", torch.cuda.is_available())
        elif how == "fork":
            child = os.fork()
            if child == 0:
                use(48)
                os._exit(0)
            os.waitpid(child, 0)
        elif how == "workers":
            # The seconds after which a worker that has not ended yet is killed.
            torch.utils.data._utils.MP_STATUS_CHECK_INTERVAL = 600
            spawn = multiprocessing.get_context("spawn")
            list(DataLoader(OnGpu(), num_workers=1, multiprocessing_context=spawn))
        elif how == "visible":
            for gpu in ("1", "0"):
                environment = {**os.environ, "CUDA_VISIBLE_DEVICES": gpu}
                code = "assert starts.torch.cuda.device_count() == 1; starts.use(8)"
                python(code, env=environment, check=True)
        elif how == "damaged":
            folder = json.loads(os.environ["FLOODMARK_ESTIMATE"])["folder"]
            with open(os.path.join(folder, "77-1.flood"), "wb") as file:
                file.write(b"no trace")
        elif how == "namespace":
            words = [*os.environ["NAMESPACE"].split(), sys.executable, "-c"]
            subprocess.run([*words, "import starts; starts.use(24)"], check=True)
        elif how == "share":
            children = [
                subprocess.Popen([sys.executable, "-c", f"import starts; starts.use({mib})"])
                for mib in (700, 800)
            ]
            for child in children:
                assert child.wait() == 0

    if __name__ == "__main__":
        for how in sys.argv[1:]:
            main(how)
"""


@pytest.fixture
def starts(programs):
    programs.write(STARTS, "starts.py")
    return programs


def test_children_of_every_kind_use_the_simulated_gpu(starts):
    ways = ["subprocess", "leaves", "killed", "fork", "workers"]
    done, found = estimate(starts, "starts.py", *ways)
    assert done.returncode == 0, done.stderr
    assert (found["fits"], found["ended"], found["processes"]) == (True, "done", 5)
    assert sorted(row["peak_allocated"] // MIB for row in found["devices"]) == [4, 16, 32, 48, 64]
    names = [path.name for path in (starts.folder / "a").iterdir()]
    assert sum(name.startswith("process-") for name in names) == 6, "one with its journal"
    assert len(names) == 6
    assert not list(starts.folder.glob("a.*"))


def test_children_record_operators_too(starts):
    done = starts.floodmark("estimate", "--ops", "-o", "a", "starts.py", "subprocess", "fork")
    assert done.returncode == 0, done.stderr
    # The process with the highest peak is the one that is shown.
    [shown] = [line for line in done.stdout.splitlines() if "aten::empty" in line]
    assert "64.00 MiB" in shown
    found = {}
    for path in (starts.folder / "a").glob("*.flood"):
        for call in floodmark.Trace.open(path).op_calls("cuda:0"):
            found[call["peak"] // MIB] = call["op"]
    assert found == {64: "aten::empty", 48: "aten::empty"}


@needs_namespaces
def test_a_child_in_another_pid_namespace_has_ended_when_it_has(starts):
    # It is process 1 there, and a process 1 runs here.
    namespace = {"NAMESPACE": " ".join(IN_OTHER_NAMESPACE)}
    done, found = estimate(starts, "starts.py", "namespace", env=namespace)
    assert done.returncode == 0, done.stderr
    assert (found["fits"], found["processes"], found["notes"]) == (True, 1, [])
    assert found["peak_allocated"] == 24 * MIB
    assert [path.name for path in (starts.folder / "a").iterdir()] == ["rank-0000.flood"]
    assert not list(starts.folder.glob("a.*"))


def test_a_child_that_runs_out_does_not_fit(starts):
    done, found = estimate(starts, "--gpu", "t4", "starts.py", "too much")
    assert "torch.OutOfMemoryError" in done.stderr
    assert found["fits"] is False
    [device] = found["devices"]
    assert device["failed"]["request"]["bytes"] == 1 << 40


def test_a_child_out_of_reach_is_no_success(starts):
    done, found = estimate(starts, "starts.py", "isolated", "damaged")
    assert f"host {torch.cuda.is_available()}" in done.stderr
    assert done.returncode == 1
    assert (found["fits"], found["unknown"]) == (None, "incomplete")
    [note] = found["notes"]
    assert note.startswith("Process 77 is left out: ")


def test_children_see_the_gpus_that_their_parent_chose(starts):
    done, found = estimate(starts, "--gpus", "2", "starts.py", "visible")
    assert done.returncode == 0, done.stderr
    assert sorted((row["device"], row["gpu"]) for row in found["devices"]) == [
        ("cuda:0", 0),
        ("cuda:0", 1),
    ]
    assert found["shared"] == []
    names = [path.name for path in (starts.folder / "a").iterdir()]
    assert len(names) == 2
    assert all(name.startswith("process-") for name in names)


def test_children_that_share_a_gpu_may_be_too_much_for_it(starts):
    done, found = estimate(starts, "--gpu", "t4", "--memory", "1800MiB", "starts.py", "share")
    assert done.returncode == 1
    assert (found["fits"], found["unknown"], found["processes"]) == (None, "shared_gpu", 2)
    [shared] = found["shared"]
    assert (shared["gpu"], shared["processes"]) == (0, 2)
    assert shared["needed"] == sum(row["needed"] for row in found["devices"])
    done, found = estimate(starts, "--gpu", "t4", "--memory", "8GiB", "starts.py", "share")
    assert (done.returncode, found["fits"]) == (0, True)


#: A training script for launchers: ranks from the environment, a process group, DDP.
LAUNCHED = """
    import os, torch
    import torch.distributed as dist

    rank = int(os.environ.get("LOCAL_RANK", 0))
    torch.cuda.set_device(rank)
    if "RANK" in os.environ:
        dist.init_process_group("nccl")
        # One write: two processes share the pipe, and Python without buffers writes words.
        os.write(1, f"rank {dist.get_rank()} of {dist.get_world_size()}\\n".encode())
    model = torch.nn.Linear(1024, 1024, device=rank)
    optimizer = torch.optim.AdamW(model.parameters())
    if dist.is_initialized():
        model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[rank])
    for _ in range(100):
        model(torch.randn(8, 1024, device=rank)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
"""


def test_torchrun_under_an_estimate(programs):
    programs.write(LAUNCHED, "launched.py")
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done, found = estimate(programs, "--gpus", "2", "--steps", "3", *launcher, "launched.py")
    assert done.returncode == 0, done.stderr
    assert "rank 1 of 2" in done.stderr
    assert (found["fits"], found["ended"], found["steps"]) == (True, "steps", 3)
    assert [row["process"]["rank"] for row in found["devices"]] == [0, 1]
    names = sorted(path.name for path in (programs.folder / "a").iterdir())
    assert names == ["rank-0000.flood", "rank-0001.flood"]
    # DDP makes new buckets in the second step: the old ones go, however fast a step is.
    peaks = [row["peak_allocated"] for row in found["devices"]]
    one, alone = estimate(programs, "--world", "2", "--steps", "3", "launched.py")
    assert one.returncode == 0, one.stderr
    assert peaks == [alone["peak_allocated"]] * 2
    assert "floodmark: step 1, peak" in done.stderr


def test_accelerate_launch_under_an_estimate(programs):
    pytest.importorskip("accelerate")
    programs.write(LAUNCHED, "launched.py")
    launcher = ["-m", "accelerate.commands.launch", "--num_processes", "1"]
    done, found = estimate(programs, "--steps", "2", *launcher, "launched.py")
    assert done.returncode == 0, done.stderr
    assert (found["fits"], found["ended"], found["steps"]) == (True, "steps", 2)
    assert found["peak_allocated"] >= 16 * MIB
    # One process used the GPU: one trace, where that of the program itself would be.
    assert [path.name for path in (programs.folder / "a").iterdir()] == ["rank-0000.flood"]
    trace = floodmark.Trace.open(programs.folder / "a" / "rank-0000.flood")
    assert trace.peak("cuda:0").by_category().rows
    assert not list(programs.folder.glob("a.*"))


#: A training loop with accelerate, as its guide has it.
ACCELERATED = """
    import os, torch
    from accelerate import Accelerator
    from torch.utils.data import DataLoader, TensorDataset

    accelerator = Accelerator(mixed_precision="bf16", gradient_accumulation_steps=2)
    found = f"{accelerator.process_index} {accelerator.device} {accelerator.distributed_type.name}"
    os.write(1, f"process {found}\\n".encode())
    model = torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.Linear(512, 4))
    optimizer = torch.optim.AdamW(model.parameters())
    data = TensorDataset(torch.randn(64, 512), torch.randint(0, 4, (64,)))
    model, optimizer, batches = accelerator.prepare(
        model, optimizer, DataLoader(data, batch_size=8, shuffle=True)
    )
    for x, y in batches:
        with accelerator.accumulate(model):
            loss = torch.nn.functional.cross_entropy(model(x), y)
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        shape = tuple(accelerator.gather(loss.detach()[None]).shape)
        # One write: two processes share the pipe, and Python without buffers writes words.
        os.write(1, f"losses {shape}\\n".encode())
    accelerator.wait_for_everyone()
    accelerator.end_training()
"""


def test_accelerate_launch_with_two_processes(programs):
    pytest.importorskip("accelerate")
    programs.write(ACCELERATED, "accelerated.py")
    launcher = ["-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2"]
    with kept_port() as port:
        # By default it is the same port for all.
        launcher += ["--main_process_port", str(port)]
        done, found = estimate(programs, "--gpus", "2", *launcher, "accelerated.py")
    assert done.returncode == 0, done.stderr
    for rank in (0, 1):
        assert f"process {rank} cuda:{rank} MULTI_GPU" in done.stderr
    assert done.stderr.count("losses (2,)") == 8, "four batches for each of two processes"
    assert (found["fits"], found["ended"], found["processes"]) == (True, "done", 2)
    assert [row["process"]["rank"] for row in found["devices"]] == [0, 1]
    assert found["steps"] == 2
    names = sorted(path.name for path in (programs.folder / "a").iterdir())
    assert names == ["rank-0000.flood", "rank-0001.flood"]


def test_the_start_up_file_gives_way_to_the_users_own(programs):
    programs.write("import builtins\nbuiltins.users_own = 'seen'", "site/sitecustomize.py")
    programs.write(
        """
        import subprocess, sys, textwrap
        look = '''
        import sys
        ours = [entry for entry in sys.path if "_startup" in entry]
        print(users_own, "floodmark" in sys.modules, ours)
        '''
        use = "import torch; torch.ones(8, device='cuda')"
        for code in (textwrap.dedent(look), use):
            subprocess.run([sys.executable, "-c", code], check=True)
        """,
        "parent.py",
    )
    done, found = estimate(programs, "parent.py", env={"PYTHONPATH": str(programs.folder / "site")})
    assert done.returncode == 0, done.stderr
    assert "seen False []" in done.stderr
    assert found["processes"] == 1


#: The constructs of a well-known small trainer of GPT: globals that a file and words override by
#: `exec`, DDP by the variables of a launcher, a fused optimizer, micro steps without a sync.
TRAINER = """
    import os, torch
    from contextlib import nullcontext
    from torch.distributed import destroy_process_group, init_process_group
    from torch.nn.parallel import DistributedDataParallel as DDP

    width = 64
    batch = 4
    micro_steps = 16
    steps = 3
    names = [k for k, v in globals().items() if not k.startswith("_") and isinstance(v, int)]
    exec(open("overrides.py").read())
    assert width == 128 and steps == 2, (width, steps)

    ddp = int(os.environ.get("RANK", -1)) != -1
    assert ddp
    init_process_group(backend="nccl")
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    device = f"cuda:{os.environ['LOCAL_RANK']}"
    torch.cuda.set_device(device)
    assert micro_steps % world == 0
    micro_steps //= world
    torch.manual_seed(1337 + rank)
    context = torch.amp.autocast(device_type="cuda", dtype=torch.bfloat16)
    raw = torch.nn.Sequential(torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width))
    raw.to(device)
    scaler = torch.amp.GradScaler("cuda", enabled=False)
    optimizer = torch.optim.AdamW(raw.parameters(), fused=True)
    model = DDP(raw, device_ids=[int(os.environ["LOCAL_RANK"])])
    for step in range(steps):
        for micro in range(micro_steps):
            model.require_backward_grad_sync = micro == micro_steps - 1
            x = torch.randn(batch, width).pin_memory().to(device, non_blocking=True)
            with context:
                loss = model(x).float().pow(2).mean() / micro_steps
            scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
        if rank == 0:
            print("loss", loss.item() * micro_steps)
    destroy_process_group()
"""


def test_a_script_for_torchrun_runs_as_a_rank_of_a_world(programs):
    programs.write(TRAINER, "train.py")
    programs.write(
        """
        import sys
        for word in sys.argv[1:]:
            key, value = word.removeprefix("--").split("=")
            assert key in names
            globals()[key] = int(value)
        """,
        "overrides.py",
    )
    done, found = estimate(programs, "--world", "8", "train.py", "--width=128", "--steps=2")
    assert done.returncode == 0, done.stderr
    assert (found["fits"], found["ended"], found["steps"]) == (True, "done", 2)
    assert (found["rank"], found["world_size"]) == (0, 8)
