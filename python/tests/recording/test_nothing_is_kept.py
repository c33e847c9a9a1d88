"""A recording keeps nothing of the program alive, and slows no death."""

from __future__ import annotations

import gc
import sys
import types
import weakref

import torch
from torch import nn


def made_function(number):
    names = {"torch": torch}
    exec(f"def made(module):\n    return module(torch.ones(4, {number}))", names)
    return names["made"]


class Holder(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.register_buffer("table", torch.ones(8))

    def forward(self, x):
        return self.linear(x) + self.table


def test_modules_and_tensors_die_during_the_recording(record):
    with record():
        model = Holder()
        out = model(torch.ones(4, 8))
        out.sum().backward()
        alive = [
            weakref.ref(thing)
            for thing in (model, model.linear, model.linear.weight, model.table, out)
        ]
        alive.append(weakref.ref(model.linear.weight.grad))
        del model, out
        gc.collect()
        assert [reference() for reference in alive] == [None] * len(alive)


def test_code_objects_are_released_at_the_end(record):
    model = Holder()
    function = made_function(8)
    code = function.__code__
    before = sys.getrefcount(code), sys.getrefcount(Holder.forward.__code__)
    for _ in range(3):
        with record():
            function(model)
            function(model)
        gc.collect()
        assert (sys.getrefcount(code), sys.getrefcount(Holder.forward.__code__)) == before
    del function
    gc.collect()
    # Of the two left, one is the variable, the other the call.
    assert sys.getrefcount(code) == 2


def test_functions_made_at_run_time_die_after_the_recording(record):
    with record():
        model = Holder()
        codes = []
        for _ in range(20):
            function = made_function(8)
            function(model)
            codes.append(weakref.ref(function.__code__))
        del function
    gc.collect()
    assert not [reference for reference in codes if reference() is not None]


def test_no_object_of_the_program_is_left_after_many_recordings(record):
    def counted():
        gc.collect()
        found = gc.get_objects()
        kinds = (torch.Tensor, nn.Module, types.FrameType)
        return sum(isinstance(thing, kinds) for thing in found if type(thing) in kinds)

    def work():
        model = nn.Sequential(Holder(), nn.Linear(8, 2))
        model(torch.ones(4, 8)).sum().backward()

    with record():
        work()
    before = counted()
    for _ in range(10):
        with record():
            work()
    assert counted() == before


def test_optimizers_and_their_states_die_during_the_recording(record):
    with record():
        model = Holder()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        for _ in range(3):
            model(torch.ones(4, 8)).sum().backward()
            optimizer.step()
        state = optimizer.state[model.linear.weight]["momentum_buffer"]
        alive = [weakref.ref(optimizer), weakref.ref(state), weakref.ref(model.linear.weight)]
        optimizer.zero_grad()
        del optimizer, state, model
        gc.collect()
        assert [reference() for reference in alive] == [None, None, None]


def test_hooks_on_optimizers_are_gone_after_the_recording(record):
    from torch.optim import optimizer as optimizers

    def hooks():
        return [
            len(found)
            for name in ("_global_optimizer_pre_hooks", "_global_optimizer_post_hooks")
            if (found := getattr(optimizers, name, None)) is not None
        ]

    before = hooks()
    assert before, "this torch keeps its hooks elsewhere"
    with record():
        assert hooks() == [count + 1 for count in before]
    assert hooks() == before
    assert not [finder for finder in sys.meta_path if "floodmark" in type(finder).__module__]
