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
