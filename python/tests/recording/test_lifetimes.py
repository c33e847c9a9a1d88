"""When tensors were made, saved for backward by autograd, last read by it, and freed."""

from __future__ import annotations

import pytest
import torch
from support.phantoms import needs_cuda_build
from torch import nn
from torch.utils.checkpoint import checkpoint

WIDTH, BATCH = 48, 80
HIDDEN = BATCH * WIDTH * 4
WEIGHT = WIDTH * WIDTH * 4
TIMES = ("allocated_seconds", "saved_seconds", "last_use_seconds", "freed_seconds")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(WIDTH, WIDTH, bias=False)
        self.norm = nn.LayerNorm(WIDTH)
        self.down = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x):
        return self.down(torch.tanh(self.norm(self.up(x))))


def steps(model, count: int, device: str = "cpu") -> None:
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(count):
        model(torch.randn(BATCH, WIDTH, device=device)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


@pytest.fixture(scope="module")
def lives(tmp_path_factory):
    """The lives of three steps, and the trace."""
    import floodmark

    path = tmp_path_factory.mktemp("lives") / "trained.flood"
    with floodmark.trace(path):
        steps(Net(), 3)
    trace = floodmark.Trace.open(path)
    return trace, trace.lifetimes("cpu")


def test_saved_tensors_are_made_saved_read_and_freed_in_this_order(lives):
    _, rows = lives
    saved = [
        row for row in rows if row["category"] == "activation" and row["saved_seconds"] is not None
    ]
    # In each step: the outputs of `up`, of `norm` and of `tanh`.
    assert sum(row["bytes"] == HIDDEN for row in saved) >= 9
    for row in saved:
        made, saved_at, last_use, freed = (row[name] for name in TIMES)
        assert made <= saved_at < last_use <= freed
        assert row["phase"] == "forward"


def test_lives_are_of_all_tensors_not_only_those_at_the_peak(lives):
    trace, rows = lives
    at_peak = {row["location"] for row in trace.peak("cpu").by_tensor(top=None)}
    assert len(rows) > 2 * len(at_peak)
    assert {row["step"] for row in rows} >= {0, 1, 2}
    assert [row["id"] for row in rows] == sorted(row["id"] for row in rows)


def test_temporaries_are_not_saved(lives):
    _, rows = lives
    optimizers = [row for row in rows if row["phase"] == "optimizer"]
    assert optimizers
    assert all(
        row["saved_seconds"] is None and row["last_use_seconds"] is None for row in optimizers
    )


def test_parameters_gradients_and_states_have_their_module(lives):
    _, rows = lives
    for category, suffix in (
        ("parameter", "weight"),
        ("gradient", "weight"),
        ("optimizer state", "weight.exp_avg"),
        ("optimizer state", "weight.exp_avg_sq"),
    ):
        for module in ("up", "norm", "down"):
            named = [row for row in rows if row["name"] == f"{module}.{suffix}"]
            named = [row for row in named if row["category"] == category]
            assert named, (category, module)
            assert {row["module"] for row in named} == {module}


def test_the_report_and_the_tables_have_the_same_times(lives, tmp_path):
    trace, rows = lives
    trace.export(tmp_path / "tables", "parquet")
    import pyarrow.parquet as parquet

    (path,) = (tmp_path / "tables").rglob("allocations.parquet")
    table = parquet.ParquetFile(path).read().to_pylist()
    by_id = {row["allocation"]: row for row in table if row["device"] == "cpu"}
    for row in rows:
        for name in TIMES[1:]:
            micros = by_id[row["id"]][name.replace("_seconds", "_micros")]
            assert (row[name] is None) == (micros is None)
            assert row[name] is None or row[name] == pytest.approx(micros / 1e6)
    peak = trace.peak("cpu").by_tensor(top=None)
    assert any(row["saved_seconds"] is not None for row in peak)


def test_every_phase_has_its_peak(lives):
    trace, _ = lives
    rows = {row["phase"]: row for row in trace.peak("cpu").by_phase()}
    assert {"forward", "backward", "optimizer"} <= set(rows)
    peak = trace.peak("cpu").by_line().allocated
    assert max(row["peak"] for row in rows.values() if row["peak"]) == peak
    assert all(row["peak_seconds"] > 0 for row in rows.values() if row["peak"])


def test_without_gradients_nothing_is_saved(record):
    model = Net()
    with record() as recorded, torch.no_grad():
        model(torch.randn(BATCH, WIDTH))
    assert all(row["saved_seconds"] is None for row in recorded.trace.lifetimes("cpu"))


def test_a_custom_function_and_a_checkpoint_save_what_they_say(record):
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(context, x):
            doubled = x * 2
            context.save_for_backward(doubled)
            return doubled + 1

        @staticmethod
        def backward(context, gradient):
            (_doubled,) = context.saved_tensors
            return gradient * 2

    x = torch.ones(5003, requires_grad=True)
    with record() as recorded:
        Twice.apply(x).sum().backward()
        inner = torch.ones(7001, requires_grad=True)
        checkpoint(lambda y: y.sin().cos(), inner, use_reentrant=False).sum().backward()
    rows = recorded.trace.lifetimes("cpu")
    doubled = [row for row in rows if row["bytes"] == 5003 * 4 and row["saved_seconds"] is not None]
    assert len(doubled) == 1
    assert doubled[0]["last_use_seconds"] is not None
    # The first run saves `y` and `y.sin()`; the second, in backward, saves what backward reads.
    sines = [
        row for row in rows if row["bytes"] == 7001 * 4 and row["last_use_seconds"] is not None
    ]
    assert sines


def test_a_model_that_is_saved_and_read_on_other_threads(record):
    import threading

    model = Net()

    def run():
        model(torch.randn(BATCH, WIDTH)).sum().backward()

    with record() as recorded:
        threads = [threading.Thread(target=run) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    rows = [row for row in recorded.trace.lifetimes("cpu") if row["bytes"] == HIDDEN]
    assert (
        sum(
            row["saved_seconds"] is not None and row["last_use_seconds"] is not None for row in rows
        )
        >= 6
    )


ENGINES = """
import floodmark
with floodmark.estimate("h100", engine="{engine}", path="{engine}.flood"):
    import torch
    from torch import nn
    model = nn.Sequential(nn.Linear(256, 512), nn.Tanh(), nn.Linear(512, 256)).cuda().half()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    batch = torch.randn(64, 256, device="cuda").half()
    for _ in range(2):
        model(batch).float().square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
"""


OUT_OF_MEMORY = """
import floodmark
import warnings
warnings.simplefilter("error")
try:
    with floodmark.estimate("h100", engine="fake", memory="2100MiB", path="oom.flood"):
        import torch
        from torch import nn
        model = nn.Sequential(*[nn.Linear(4096, 4096, bias=False) for _ in range(12)]).cuda()
        torch.optim.AdamW(model.parameters())
        model(torch.randn(512, 4096, device="cuda")).square().mean().backward()
except torch.OutOfMemoryError:
    pass
"""


def test_gradients_of_a_first_pass_without_memory_are_gradients(programs):
    import floodmark

    programs.run(OUT_OF_MEMORY)
    oom = floodmark.Trace.open(programs.folder / "oom.flood").oom("cuda:0")
    rows = [row for row in oom.by_tensor(top=None) if row["category"] == "gradient"]
    # The pass begins with the last layer.
    names = [row["name"] for row in rows]
    assert names == [f"{11 - number}.weight" for number in range(len(rows))]
    assert 0 < len(rows) < 12
    assert {row["module"] for row in rows} == {name.split(".")[0] for name in names}


@needs_cuda_build
@pytest.mark.parametrize("engine", ["phantom", "fake"])
def test_both_engines_of_an_estimate_see_lives_workspaces_and_the_batch(programs, engine):
    import floodmark

    programs.run(ENGINES.format(engine=engine))
    rows = floodmark.Trace.open(programs.folder / f"{engine}.flood").lifetimes("cuda:0")
    by_category = {}
    for row in rows:
        by_category.setdefault(row["category"], []).append(row)
    outputs = [row for row in by_category["activation"] if row["bytes"] == 64 * 512 * 2]
    assert any(None not in [row[name] for name in TIMES] for row in outputs)
    workspaces = {row["name"] for row in by_category["workspace"]}
    # Bias and product in one call go to cuBLASLt, which works in a block of its own.
    assert "cuBLASLt workspace" in workspaces, sorted(map(str, workspaces))
    # The batch was made before the loop and is kept: it stays an input.
    assert [row["bytes"] for row in by_category["input"] if row["freed_seconds"] is None] == [
        64 * 256 * 2
    ]
    assert {row["module"] for row in by_category["gradient"]} == {"0", "2"}
