"""Allocations carry the qualified name of the module that made them."""

from __future__ import annotations

import gc
import sys
import threading
import time
import warnings
import weakref

import pytest
import torch
from support.flood_file import line_of
from support.phantoms import needs_no_gpu
from support.programs import PATIENCE
from torch import nn
from torch._subclasses import FakeTensorMode

from floodmark import _core

#: Output sizes that tell modules apart: batch 4, float32.
BATCH = 4


def made_by(recorded, features):
    """The modules whose forward made something of the size of an output with this many features."""
    made = recorded.file.allocations(BATCH * features * 4)
    return [event.module for event in made if not event.backward]


class Block(nn.Module):
    def __init__(self, width, shared=None):
        super().__init__()
        self.mlp = nn.ModuleDict({"up": nn.Linear(8, width), "down": nn.Linear(width, 8)})
        self.shared = shared

    def forward(self, x):
        x = self.mlp["down"](self.mlp["up"](x))
        return x if self.shared is None else self.shared(x)


class Model(nn.Module):
    def __init__(self, widths, shared=None):
        super().__init__()
        self.layers = nn.ModuleList(Block(width, shared) for width in widths)
        self.head = nn.Sequential(nn.Sequential(nn.Linear(8, 301)), nn.Linear(301, 302))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def test_names_are_qualified_through_lists_dicts_and_sequences(record):
    model = Model([101, 102, 103])
    with record() as recorded:
        for _ in range(2):
            model(torch.ones(BATCH, 8))
    for number in range(3):
        assert made_by(recorded, 101 + number) == [f"layers.{number}.mlp.up"] * 2
    assert made_by(recorded, 301) == ["head.0.0"] * 2
    assert made_by(recorded, 302) == ["head.1"] * 2


def test_a_shared_module_goes_by_the_name_under_which_it_runs(record):
    model = Model([101, 102], shared=nn.Linear(8, 8))
    with record() as recorded:
        model(torch.ones(BATCH, 8))
    assert made_by(recorded, 8)[-3:].count(None) == 0
    names = [name for name in made_by(recorded, 8) if name is not None and "shared" in name]
    assert names == ["layers.0.shared", "layers.1.shared"]


def test_a_shared_parameter_has_the_name_that_torch_gives_it(record):
    with record() as recorded:
        model = nn.Sequential(nn.Linear(8, 8, bias=False), nn.Linear(8, 8, bias=False), nn.Tanh())
        model[1].weight = model[0].weight
        model(torch.ones(BATCH, 8))
    names = [row["name"] for row in recorded.trace.end("cpu").by_tensor() if row["name"]]
    assert names == [name for name, _ in model.named_parameters()] == ["0.weight"]


def test_two_models_in_one_program_are_told_apart(record):
    class Other(Model):
        pass

    one, other = Model([101]), Other([102])
    with record() as recorded:
        for _ in range(3):
            kept = one(torch.ones(BATCH, 8)), other(torch.ones(BATCH, 8))
    assert made_by(recorded, 101) == ["layers.0.mlp.up"] * 3
    assert made_by(recorded, 102) == ["layers.0.mlp.up"] * 3
    rows = recorded.trace.end("cpu").by_module().rows
    places = {row["location"] for row in rows}
    assert {"Model.head.1", "Other.head.1"} <= places, places
    del kept


def test_a_module_at_the_address_of_a_dead_one_gets_its_own_name(record):
    """Models are made and die in a loop: their addresses come again, their names must not."""

    class Odd(nn.Module):
        def __init__(self, width):
            super().__init__()
            setattr(self, f"part_{width}", nn.Linear(8, width))
            self.width = width

        def forward(self, x):
            return getattr(self, f"part_{self.width}")(x)

    addresses = set()
    with record() as recorded:
        for number in range(60):
            model = Odd(400 + number)
            addresses.add(id(model))
            model(torch.ones(BATCH, 8))
            del model
            gc.collect(0)
    assert len(addresses) < 60, "no address came again: this test tests nothing"
    for number in range(60):
        assert made_by(recorded, 400 + number) == [f"part_{400 + number}"]


def test_a_module_that_is_replaced_in_its_model_gets_its_name(record):
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 201))
    with record() as recorded:
        model(torch.ones(BATCH, 8))
        model[1] = nn.Linear(8, 202)
        model.append(nn.Linear(202, 203))
        model(torch.ones(BATCH, 8))
    assert made_by(recorded, 201) == ["1"]
    assert made_by(recorded, 202) == ["1"]
    assert made_by(recorded, 203) == ["2"]


def test_a_submodule_that_is_called_by_itself_first_is_named_later(record):
    model = Model([101])
    with record() as recorded:
        model.layers[0].mlp["up"](torch.ones(BATCH, 8))
        model(torch.ones(BATCH, 8))
    assert made_by(recorded, 101)[-1] == "layers.0.mlp.up"


def test_parameters_have_the_names_of_the_outermost_model(record):
    with record() as recorded:
        model = Model([101])
        optimizer = torch.optim.AdamW(model.parameters())
        model.layers[0](torch.ones(BATCH, 8))
        model(torch.ones(BATCH, 8)).sum().backward()
        optimizer.step()
    names = {row["name"] for row in recorded.trace.end("cpu").by_tensor()}
    assert {"layers.0.mlp.up.weight", "layers.0.mlp.up.weight.exp_avg"} <= names
    assert "mlp.up.weight" not in names


class MakesItsLoss(nn.Module):
    """As many models of transformers do: `forward` makes the module of its loss anew."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(*(nn.Linear(8, 8) for _ in range(100)))

    def forward(self, x):
        losses = [nn.MSELoss() for _ in range(3)]
        return sum(loss(self.layers(x), x) for loss in losses)


class Hides(nn.Module):
    """Calls a model that is none of its submodules."""

    def __init__(self, model):
        super().__init__()
        self.hidden = [model]

    def forward(self, x):
        return self.hidden[0](x)


def test_a_hidden_model_gets_its_names_when_it_is_called_by_itself(record):
    model = Model([101])
    with record() as recorded:
        for _ in range(3):
            Hides(model)(torch.ones(BATCH, 8))
        for _ in range(3):
            model(torch.ones(BATCH, 8))
    assert made_by(recorded, 101)[-1] == "layers.0.mlp.up"


def test_modules_that_are_no_submodules_take_no_memory_again_and_again(record):
    model = MakesItsLoss()
    with record(max_memory="16MiB") as recorded:
        for _ in range(100):
            model(torch.ones(BATCH, 8))
    assert recorded.trace.end("cpu").by_line().losses == []
    names = [name for module in recorded.file.modules.values() for name in module["names"]]
    assert len(names) == len(set(names)) < 1000


# `DataParallel` moves the model to a GPU.
@needs_no_gpu
def test_wrappers_add_nothing_to_names(record):
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

    parallel = nn.DataParallel(Model([101]))
    wrapped = Model([102])
    wrapped.layers[0] = checkpoint_wrapper(wrapped.layers[0])
    with record() as recorded:
        parallel(torch.ones(BATCH, 8))
        wrapped(torch.ones(BATCH, 8)).sum().backward()
    assert set(made_by(recorded, 101)) == {"layers.0.mlp.up"}
    assert set(made_by(recorded, 102)) == {"layers.0.mlp.up"}


def test_a_compiled_model_keeps_its_names(record):
    model = Model([101])
    try:
        compiled = torch.compile(model, backend="eager")
    except RuntimeError as error:
        # Older versions of torch refuse later ones of Python.
        if "not supported on Python" not in str(error):
            raise
        pytest.skip(str(error))
    compiled(torch.ones(BATCH, 8))
    with record() as recorded:
        compiled(torch.ones(BATCH, 8))
    # The compiled forward is one function: what frames show is the model. Before 2.5 it calls
    # copies of the modules, which have no names. Never is it another module's name.
    seen = set(made_by(recorded, 101))
    assert seen <= {"layers.0.mlp.up", "Model", "OptimizedModule", "<Linear>"}, seen
    assert None not in seen


def test_a_distributed_model_keeps_its_names(record, tmp_path):
    if not torch.distributed.is_available():
        pytest.skip("this torch is not distributed")
    store = f"file://{tmp_path}/store"
    torch.distributed.init_process_group("gloo", init_method=store, rank=0, world_size=1)
    try:
        model = nn.parallel.DistributedDataParallel(Model([101]))
        with record() as recorded:
            model(torch.ones(BATCH, 8)).sum().backward()
    finally:
        torch.distributed.destroy_process_group()
    assert set(made_by(recorded, 101)) == {"layers.0.mlp.up"}
    backward = [event for event in recorded.file.allocations(8 * 101 * 4) if event.backward]
    assert {event.module for event in backward} <= {"layers.0.mlp.up", "layers.0.mlp.down"}


def test_the_report_by_module_is_a_tree_that_adds_up(record):
    model = Model([101, 102])
    with record() as recorded:
        out = model(torch.ones(BATCH, 8))
    rows = {row["location"]: row for row in recorded.trace.end("cpu").by_module()}
    layers = rows["layers"]
    inside = [
        row for name, row in rows.items() if name.startswith("layers.") and name.count(".") == 1
    ]
    assert layers["bytes"] == layers["own"] + sum(row["bytes"] for row in inside)
    assert rows["head.1"]["class_name"] == "Linear"
    del out


def wait_until_it_waits(thread, line):
    """Wait until a thread stands in a line of this file that takes a lock: it runs no Python."""

    def place():
        frame = sys._current_frames()[thread.ident]
        return frame.f_code.co_filename, frame.f_lineno

    while place() != (__file__, line):
        time.sleep(0.01)


def has_names(model):
    """Whether the recorder has named the parameters: it keeps weak references to them."""
    return all(weakref.getweakrefcount(parameter) for parameter in model.parameters())


def run_while_the_main_thread_waits(model):
    ended = threading.Lock()
    waits = line_of(run_while_the_main_thread_waits, "waits")

    def work():
        try:
            wait_until_it_waits(threading.main_thread(), waits)
            end = time.monotonic() + PATIENCE
            while not has_names(model) and time.monotonic() < end:
                model(torch.ones(BATCH, 8))
            model(torch.ones(BATCH, 8))
        finally:
            ended.release()

    ended.acquire()
    thread = threading.Thread(target=work)
    thread.start()
    ended.acquire()  # waits
    thread.join()


def test_a_model_that_runs_only_on_a_thread_gets_its_names(record):
    # The thread that names it ends with the recorder, and is started again.
    for width in (101, 102, 103):
        _core.disarm()
        with record() as recorded:
            torch.ones(BATCH)
            run_while_the_main_thread_waits(Model([width]))
        assert set(made_by(recorded, width)) == {"layers.0.mlp.up"}
        count = recorded.trace.summary()["threads"]
        assert count == 2, "the recorder's own is not the program's"


def test_fake_tensors_are_not_asked_where_they_lie(record):
    # Torch warns of each read of their address, and the reader would not be the user.
    torch.set_warn_always(True)
    try:
        with warnings.catch_warnings(record=True) as warned, record(), FakeTensorMode():
            model = nn.Linear(4, 4)
            optimizer = torch.optim.AdamW(model.parameters())
            model(torch.ones(2, 4)).sum().backward()
            optimizer.step()
    finally:
        torch.set_warn_always(False)
    assert [str(each.message) for each in warned if "data pointer" in str(each.message)] == []
