"""Phases, steps and categories come by themselves; names of the user's go before them."""

from __future__ import annotations

import threading

import pytest
import torch
from support.flood_file import FloodFile
from torch import nn

import floodmark

WIDTH, BATCH, STEPS = 64, 96, 3
WEIGHT = WIDTH * WIDTH * 4


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(WIDTH, WIDTH, bias=False)
        self.down = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x):
        hidden = torch.tanh(self.up(x))
        return self.down(hidden)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Three steps of Adam and of SGD with momentum, without a word to the recorder."""
    folder = tmp_path_factory.mktemp("trained")
    found = {"folder": folder}
    makers = {
        "adam": lambda parameters: torch.optim.Adam(parameters, lr=1e-3),
        "sgd": lambda parameters: torch.optim.SGD(parameters, lr=1e-3, momentum=0.9),
    }
    for name, make in makers.items():
        path = folder / f"{name}.flood"
        with floodmark.trace(path):
            model = Net()
            optimizer = make(model.parameters())
            for number in range(STEPS):
                x = torch.randn(BATCH, WIDTH)
                loss = model(x).square().mean()
                loss.backward()
                optimizer.step()
                if number < STEPS - 1:
                    optimizer.zero_grad()
        found[name] = floodmark.Trace.open(path)
        del model, optimizer, loss, x
    return found


def bytes_by(report, key):
    return {row[key]: row["bytes"] for row in report}


@pytest.mark.parametrize(("name", "states"), [("adam", 2), ("sgd", 1)])
def test_parameters_gradients_and_states_have_their_categories(trained, name, states):
    found = bytes_by(trained[name].end("cpu").by_category(), "category")
    assert found["parameter"] == 2 * WEIGHT
    assert found["gradient"] == 2 * WEIGHT
    # Adam also keeps a step counter for each parameter.
    assert 0 <= found["optimizer state"] - states * 2 * WEIGHT <= 16


def test_gradients_are_gradients_without_an_optimizer(record):
    model = Net()
    model(torch.ones(2, WIDTH)).sum().backward()
    model.zero_grad()
    with record() as recorded:
        for number in range(STEPS):
            model(torch.ones(BATCH, WIDTH)).sum().backward()
            torch.empty(4004, dtype=torch.uint8)
            if number < STEPS - 1:
                with torch.no_grad():
                    for parameter in model.parameters():
                        parameter -= 0.1 * parameter.grad
                model.zero_grad()
    rows = recorded.trace.end("cpu").by_tensor(top=None).rows
    named = {row["name"]: row["bytes"] for row in rows if row["category"] == "gradient"}
    assert named == {"up.weight": WEIGHT, "down.weight": WEIGHT}
    # Those of the steps before, too, though they were freed.
    after_passes = [event.micros / 1e6 for event in recorded.file.allocations(4004)]
    assert len(after_passes) == STEPS
    for seconds in after_passes:
        found = bytes_by(recorded.trace.at(seconds, "cpu").by_category(), "category")
        assert found["gradient"] == 2 * WEIGHT


def test_gradients_of_a_pass_that_failed_are_gradients(record):
    class Fails(torch.autograd.Function):
        @staticmethod
        def forward(_context, x):
            return x.clone()

        @staticmethod
        def backward(_context, _gradient):
            raise RuntimeError("mine")

    model = Net()
    with record() as recorded:
        loss = model.down(Fails.apply(model.up(torch.ones(BATCH, WIDTH)))).sum()
        with pytest.raises(RuntimeError, match="mine"):
            loss.backward()
    assert bytes_by(recorded.trace.end("cpu").by_category(), "category")["gradient"] == WEIGHT


def test_gradients_of_leaves_without_a_module_are_gradients(record):
    """Hand-written SGD on plain tensors, with a thread beside it, that frees at once."""
    weights = [torch.randn(WIDTH, WIDTH, requires_grad=True) for _ in range(2)]
    stop = threading.Event()
    waiting = threading.Thread(target=stop.wait)
    waiting.start()
    with record() as recorded:
        for _ in range(STEPS):
            (torch.ones(BATCH, WIDTH) @ weights[0] @ weights[1]).sum().backward()
            with torch.no_grad():
                for weight in weights:
                    weight -= 0.1 * weight.grad
                    weight.grad = None
    stop.set()
    waiting.join()
    gradients = [row for row in recorded.trace.lifetimes("cpu") if row["category"] == "gradient"]
    assert [row["bytes"] for row in gradients] == [WEIGHT] * 2 * STEPS


def test_gradients_that_a_hook_frees_in_backward_are_gradients(record):
    model = Net()
    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(lambda leaf: setattr(leaf, "grad", None))
    with record() as recorded:
        for _ in range(STEPS):
            model(torch.ones(BATCH, WIDTH)).sum().backward()
    gradients = [row for row in recorded.trace.lifetimes("cpu") if row["category"] == "gradient"]
    assert [row["bytes"] for row in gradients] == [WEIGHT] * 2 * STEPS


def test_gradients_of_a_first_pass_that_failed_are_gradients_though_they_are_freed(record):
    """As when the first backward pass runs out of memory, and the program ends or tries again."""

    def fail(_gradient):
        raise RuntimeError("mine")

    model = Net()
    optimizer = torch.optim.Adam(model.parameters())
    model.up.register_forward_hook(lambda _, __, output: output.register_hook(fail) and None)
    with record() as recorded:
        loss = model(torch.ones(BATCH, WIDTH)).sum()
        with pytest.raises(RuntimeError, match="mine"):
            loss.backward()
        torch.empty(4004, dtype=torch.uint8)
        optimizer.zero_grad()
    (after_pass,) = recorded.file.allocations(4004)
    rows = recorded.trace.at(after_pass.micros / 1e6, "cpu").by_tensor(top=None).rows
    gradients = [row for row in rows if row["category"] == "gradient"]
    assert [(row["name"], row["bytes"]) for row in gradients] == [("down.weight", WEIGHT)]


def test_a_batch_that_is_kept_stays_an_input(record):
    batches = [torch.randn(BATCH, WIDTH)]
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    with record() as recorded:
        for _ in range(STEPS):
            batches.append(torch.randn(BATCH, WIDTH))
            for batch in batches[-2:]:
                model(batch).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    rows = recorded.trace.lifetimes("cpu")
    kept = [row for row in rows if row["category"] == "input" and row["freed_seconds"] is None]
    # The one from before the recording, too.
    assert [row["bytes"] for row in kept] == [BATCH * WIDTH * 4] * (STEPS + 1)
    assert sum(row["phase"] is None for row in kept) == 1
    assert len(batches) == STEPS + 1


def test_tensors_have_their_qualified_names_shapes_and_dtypes(trained):
    rows = trained["adam"].end("cpu").by_tensor(top=None).rows
    named = {(row["category"], row["name"]): row for row in rows if row["name"]}
    for module in ("up", "down"):
        for category, name in (
            ("parameter", f"{module}.weight"),
            ("gradient", f"{module}.weight"),
            ("optimizer state", f"{module}.weight.exp_avg"),
            ("optimizer state", f"{module}.weight.exp_avg_sq"),
        ):
            row = named[category, name]
            assert row["bytes"] == WEIGHT
            assert row["shape"] == f"({WIDTH}, {WIDTH})"
            assert row["dtype"] == "float32"


def test_activations_are_distinguished_from_temporaries(trained):
    trace = trained["adam"]
    made = FloodFile(trained["folder"] / "adam.flood").allocations(BATCH * WIDTH * 4)
    times = sorted({event.micros / 1e6 for event in made})
    peaks = trace.report(by="category", at="peak", device="cpu")
    found = bytes_by(peaks, "category")
    assert found["parameter"] == 2 * WEIGHT
    # What forward keeps for backward: `hidden` of tanh, the output, the loss.
    moments = [trace.at(seconds, "cpu").by_category() for seconds in times]
    most = max(bytes_by(report, "category").get("activation", 0) for report in moments)
    assert most >= 2 * BATCH * WIDTH * 4
    ends = bytes_by(trace.end("cpu").by_category(), "category")
    assert ends.get("temporary", 0) == 0
    assert ends.get("activation", 0) <= BATCH * WIDTH * 4 + 64


def test_every_step_has_its_peak_and_its_phases(trained):
    rows = [row for row in trained["adam"].end("cpu").by_step() if row["step"] is not None]
    assert [row["step"] for row in rows][:STEPS] == list(range(STEPS))
    for row in rows[:STEPS]:
        assert {"forward", "backward"} <= set(row["phases"]), row["phases"]
        assert row["peak"] >= row["end"]
    # The states come in the first step, and stay.
    assert "optimizer" in rows[0]["phases"]
    assert rows[1]["end"] - rows[0]["end"] == rows[1]["growth"]


def test_phases_by_name_go_before_phases_by_themselves(record):
    with record() as recorded:
        with floodmark.phase("load"):
            one = torch.empty(1001, dtype=torch.uint8)
            with floodmark.phase("decode"):
                two = torch.empty(1002, dtype=torch.uint8)
            three = torch.empty(1003, dtype=torch.uint8)
        four = torch.empty(1004, dtype=torch.uint8)
        with pytest.raises(KeyError), floodmark.phase("fails"):
            raise KeyError
        five = torch.empty(1005, dtype=torch.uint8)
    named = {event.bytes: event.phase for event in recorded.file.allocations()}
    assert [named[1000 + number] for number in range(1, 6)] == ["load", "decode", "load", "", ""]
    found = bytes_by(recorded.trace.end("cpu").by_phase(), "phase")
    assert found["load"] == 1001 + 1003
    assert found["decode"] == 1002
    assert found["outside"] == 1004 + 1005
    del one, two, three, four, five


def test_steps_that_the_user_counts_go_before_those_of_optimizers(record):
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    kept = []
    with record() as recorded:
        for number in range(4):
            kept.append(torch.empty(2000 + number, dtype=torch.uint8))
            model(torch.ones(2, WIDTH)).sum().backward()
            optimizer.step()
            model(torch.ones(2, WIDTH)).sum().backward()
            optimizer.step()
            floodmark.step()
    rows = recorded.trace.end("cpu").by_tensor(top=None).rows
    steps = {row["bytes"]: row["step"] for row in rows}
    assert [steps[2000 + number] for number in range(4)] == [0, 1, 2, 3]
    assert recorded.trace.summary()["steps"] == 4


def test_a_closure_and_an_optimizer_that_raises_leave_the_phases_in_order(record):
    model = Net()

    class Fails(torch.optim.SGD):
        def step(self, closure=None):
            raise RuntimeError("mine")

    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=2)

    def closure():
        optimizer.zero_grad()
        loss = model(torch.ones(8, WIDTH)).square().sum()
        loss.backward()
        return loss

    with record() as recorded:
        optimizer.step(closure)
        with pytest.raises(RuntimeError, match="mine"):
            Fails(model.parameters(), lr=0.1).step()
        kept = torch.empty(3003, dtype=torch.uint8)
    phases = recorded.trace.end("cpu").by_phase()
    assert phases.losses == []
    assert bytes_by(phases, "phase")["optimizer"] > 0
    assert not [event for event in recorded.file.allocations(3003) if event.is_in("step")]
    del kept


def test_operators_are_named_if_requested(record):
    with record(ops=True) as recorded:
        kept = torch.randn(40, 40) @ torch.randn(40, 40)
    (product,) = recorded.file.allocations(6400)[-1:]
    assert product.op in ("aten::mm", "aten::matmul"), product.op
    assert any(row["op"] for row in recorded.trace.end("cpu").by_op())
    del kept
