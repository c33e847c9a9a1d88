"""What programs do beside training, each in a block of fake tensors; prints what became of it."""

from __future__ import annotations

import contextlib
import copy
import io
import json
import tempfile
import threading
from pathlib import Path

import floodmark

with floodmark.estimate(engine="fake"):
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset, random_split


def data_come_from_workers():
    data = TensorDataset(torch.randn(16, 8), torch.arange(16))
    first, second = random_split(data, [12, 4])
    assert (len(first), len(second)) == (12, 4)
    for x, y in DataLoader(first, 4, shuffle=True, num_workers=1, pin_memory=True):
        assert (x.shape, y.shape) == ((4, 8), (4,))
        assert x.cuda(non_blocking=True).is_cuda


def a_scaler_never_skips():
    model = nn.Linear(64, 1).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    scaler = torch.amp.GradScaler("cuda")
    for _ in range(2):
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(torch.randn(8, 64, device="cuda")).mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)
        scaler.step(optimizer)
        scaler.update()
    assert scaler.get_scale() == 65536.0
    assert optimizer.state[model.weight]


def values_are_read():
    x = torch.randn(4, 5, device="cuda")
    assert x.cpu().numpy().shape == (4, 5)
    assert [len(row) for row in x.tolist()] == [5] * 4
    assert f"{x.sum():.2f} {float(x.mean())}" == "0.00 0.0"
    assert torch.tensor([x.sum(), 1.0]).tolist() == [0.0, 1.0]
    assert torch.arange(3, device="cuda").tolist() == [0, 1, 2]
    with contextlib.suppress(TypeError):
        x.numpy()
        raise AssertionError("torch refuses this")


def models_are_copied_and_moved():
    model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8)).cuda()
    model(torch.randn(4, 8, device="cuda")).sum().backward()
    before = torch.cuda.memory_allocated()
    twin = copy.deepcopy(model)
    assert torch.cuda.memory_allocated() > before
    assert isinstance(twin[0].weight, nn.Parameter)
    assert twin[0].weight.data_ptr() != model[0].weight.data_ptr()
    model.cpu()
    assert model[0].weight.grad.device.type == "cpu"
    model[0].weight.data = model[0].weight.data.cuda()
    assert model[0].weight.is_cuda
    model.to("cuda", torch.bfloat16)
    assert model[0].weight.dtype == torch.bfloat16
    assert model[0].weight.is_cuda


def a_file_has_shapes():
    model = nn.Linear(8, 8).cuda()
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "epoch": 3}, file)
    assert len(file.getvalue()) < 4096
    file.seek(0)
    read = torch.load(file, map_location="cpu", weights_only=True)
    assert read["epoch"] == 3
    assert (read["model"]["weight"].shape, read["model"]["weight"].device.type) == ((8, 8), "cpu")
    model.load_state_dict(read["model"])
    global FILE
    FILE = file.getvalue()


def random_states_come_and_go():
    states = {"cpu": torch.get_rng_state(), "cuda": torch.cuda.get_rng_state()}
    file = io.BytesIO()
    torch.save(states, file)
    file.seek(0)
    states = torch.load(file)
    torch.set_rng_state(states["cpu"])
    torch.cuda.set_rng_state(states["cuda"])
    with torch.random.fork_rng():
        torch.manual_seed(1)


def a_thread_makes_fake_tensors():
    made = []
    thread = threading.Thread(target=lambda: made.append(torch.ones(1024, device="cuda")))
    thread.start()
    thread.join()
    assert type(made[0]).__name__ == "FakeTensor"


def memory_is_pinned():
    x = torch.randn(4, pin_memory=True).pin_memory()
    assert x.cuda().is_cuda


def files_of_safetensors():
    from safetensors import safe_open
    from safetensors.torch import load_file, save_file

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        save_file({"a": torch.zeros(8, 4, device="cuda")}, path, {"format": "pt"})
        assert path.stat().st_size > 128
        assert load_file(path, device="cuda")["a"].is_cuda
        with safe_open(path, "pt", device="cuda:0") as file:
            assert "floodmark" in file.metadata()
            assert file.get_slice("a")[:2].shape == (2, 4)


def run(habit):
    try:
        with floodmark.estimate(engine="fake") as est:
            habit()
    except Exception as error:
        return {"failed": f"{type(error).__name__}: {error}"}
    found = est.estimate.to_dict()
    return {"reads": sorted({read["op"] for read in found["reads"]}), "notes": found["notes"]}


HABITS = [
    data_come_from_workers,
    a_scaler_never_skips,
    values_are_read,
    models_are_copied_and_moved,
    a_file_has_shapes,
    random_states_come_and_go,
    a_thread_makes_fake_tensors,
    memory_is_pinned,
    files_of_safetensors,
]


def main():
    results = {habit.__name__: run(habit) for habit in HABITS}
    try:
        torch.load(io.BytesIO(FILE), weights_only=False)
    except RuntimeError as error:
        results["after"] = str(error)
    print(json.dumps(results))


if __name__ == "__main__":
    main()
