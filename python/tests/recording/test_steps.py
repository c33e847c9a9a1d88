"""Which events end a step of `--steps`, on the CPU and in this process."""

from __future__ import annotations

from contextlib import contextmanager

import pytest
import torch

import floodmark
from floodmark.recording.steps import EnoughSteps, StepWatch


@contextmanager
def watching(limit):
    """A watch with its reports, as `watch.reported`."""
    reported = []
    watch = StepWatch(limit, lambda _torch, step: reported.append(step))
    watch.reported = reported
    watch.attach(torch)
    try:
        yield watch
    finally:
        watch.detach()


def test_an_optimizer_that_never_steps_is_not_waited_for_for_ever(capsys):
    weight = torch.nn.Parameter(torch.ones(1))
    torch.optim.SGD([weight], lr=0.1)
    losses = []

    def train():
        while len(losses) < 2000:
            losses.append(weight.sum())
            losses[-1].backward()

    with watching(2) as watch, pytest.raises(EnoughSteps):
        train()
    # Pass 1,000 and the next one count; the program ends before the one after.
    assert (len(losses), watch.reported, watch.count) == (1002, [1, 2], 2)
    said = capsys.readouterr().err
    assert said.count("no optimizer has stepped in 1000 backward passes") == 1


def test_steps_that_the_program_says_go_before_all_others(capsys):
    weight = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([weight], lr=0.1)

    def train():
        for number in range(10):
            weight.sum().backward()
            weight.sum().backward()
            if number == 0:
                optimizer.step()
            floodmark.step()

    with watching(3) as watch, pytest.raises(EnoughSteps):
        train()
    assert (watch.reported, watch.count) == ([1, 1, 2, 3], 3)
    assert capsys.readouterr().err == ""


def test_accumulated_passes_are_one_step_and_nothing_stays_patched():
    original = torch.autograd.backward
    weight = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    passes = []

    def train():
        while True:
            weight.sum().backward()
            passes.append(None)
            if len(passes) % 5 == 0:
                optimizer.step()

    with watching(2) as watch, pytest.raises(EnoughSteps):
        train()
    assert (len(passes), watch.reported) == (10, [1, 2])
    assert torch.autograd.backward is original
    with watching(None):
        assert torch.autograd.backward is original


class Failing(torch.optim.SGD):
    """Raises in some of its steps; may call another optimizer, and may catch what that raises."""

    failing: frozenset[int] = frozenset()
    inner: torch.optim.Optimizer | None = None
    calls = 0

    def step(self, closure=None):
        self.calls += 1
        if self.inner is not None:
            try:
                self.inner.step()
            except FloatingPointError:
                self.inner.step()
        if self.calls in self.failing:
            raise FloatingPointError("overflow")
        return super().step(closure)


def train_through_failures(steps: int, kept: list | None = None) -> None:
    """Six of eleven steps raise, on two optimizers by turns; the first calls another one inside."""
    model = torch.nn.Linear(4, 4)
    optimizers = [Failing(model.parameters(), lr=0.1) for _ in range(3)]
    optimizers[0].failing = optimizers[1].failing = frozenset({2, 3, 5})
    optimizers[0].inner = optimizers[2]
    optimizers[2].failing = frozenset({1, 4})
    for number in range(steps):
        model(torch.ones(2, 4)).sum().backward()
        try:
            optimizers[number % 2].step()
        except FloatingPointError as error:
            if kept is not None:
                kept.append(error)


@pytest.mark.parametrize("kept", [None, []], ids=["forgotten", "kept"])
def test_steps_are_counted_after_one_that_raised(kept):
    with floodmark.trace() as recording, watching(None) as watch:
        train_through_failures(11, kept)
    assert kept is None or len(kept) == 6
    assert recording.trace.summary()["steps"] == 11
    assert watch.count == 11


def test_a_step_that_raised_ends_where_the_next_forward_begins():
    with floodmark.trace() as recording:
        train_through_failures(11)
    steps = [row for row in recording.report(by="step") if row["step"] is not None]
    assert [row["step"] for row in steps] == list(range(11))
    assert all({"forward", "backward"} <= set(row["phases"]) for row in steps)


def test_enough_steps_are_enough_where_some_raise():
    with watching(4) as watch, pytest.raises(EnoughSteps):
        train_through_failures(20)
    assert (watch.reported, watch.count) == ([1, 2, 3, 4], 4)
