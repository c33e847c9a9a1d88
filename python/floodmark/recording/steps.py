"""Counts the steps of a program, and ends it after `--steps` of them.

A step ends at each call of `floodmark.step`, otherwise at each step of an optimizer. In a program
without an optimizer, `--steps` counts backward passes.

Sees: torch's global optimizer hooks, backward passes. Talks to: its listeners, and the
recorder, which marks a step for each counted pass, and for each step of an optimizer where the
peaks of steps are compared.
"""

from __future__ import annotations

import atexit
import os
import sys
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

from floodmark import _core, torch_private
from floodmark.recording.backward_passes import PassWatch
from floodmark.recording.own_errors import OwnErrors
from floodmark.recording.window_options import say

#: After this many backward passes without an optimizer step, backward passes count as steps.
_MOST_PASSES = 1000

#: A program that catches `EnoughSteps` continues; it is raised at most this often.
_MOST_EXITS = 3

#: How long to wait for the recorder's writer, which needs a few milliseconds.
_WAIT_MILLIS = 1000

#: The shortest time between two progress lines on a terminal.
_SECONDS_BETWEEN = 0.1


class EnoughSteps(SystemExit):
    """Ends the program as `sys.exit(0)` would.

    `except Exception` does not catch it; `finally`, `with` and handlers of `atexit` run; whatever
    lets `SystemExit` pass (launchers, trainers, `multiprocessing`) lets this pass.
    """

    def __init__(self) -> None:
        super().__init__(0)


class StepWatch:
    """Counts steps; a step inside another one is not counted by itself."""

    def __init__(
        self,
        limit: int | None,
        on_step: Callable[[ModuleType, int], None],
        on_end: Callable[[], None] | None = None,
        goes_on: Callable[[], bool] | None = None,
        *,
        is_enough: Callable[[], bool] | None = None,
    ) -> None:
        self._limit = limit
        self._on_step = on_step
        self._on_end = on_end
        #: Called at the end of the last requested step and of each later one: whether to continue.
        self._goes_on = goes_on
        self._is_going_on = False
        #: Called at the end of each step before the limit: whether to end early.
        self._is_enough = is_enough
        self._had_enough = False
        self._torch: ModuleType | None = None
        self._running = _core.RunningSteps()
        self._handles: list[Any] = []
        self._exits = 0
        #: The number of ended steps of each kind; the first kind above zero counts.
        self._ended = {"marked": 0, "optimizer": 0, "pass": 0}
        self._passes = 0
        self._pass_watch: PassWatch | None = None

    def attach(self, torch: ModuleType) -> None:
        """Hook every optimizer of torch."""
        from torch.optim import optimizer as optimizers

        self._torch = torch
        self._handles += [
            optimizers.register_optimizer_step_pre_hook(self._before),
            optimizers.register_optimizer_step_post_hook(self._after),
        ]
        if self._limit is not None:
            self._pass_watch = PassWatch(torch, self._before_pass, self._after_pass)
            _watches.append(self)

    def detach(self) -> None:
        """Remove the hooks."""
        if self._pass_watch is not None:
            self._pass_watch.remove()
            _watches.remove(self)
            self._pass_watch = None
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def _before(self, *_: object) -> None:
        if self._running.begin(1) and self._running.depth == 1:
            # The optimizer step raised, and the program continued.
            self._end_step("optimizer")
            self._end_if_enough()

    def _after(self, *_: object) -> None:
        self._running.end(1)
        if self._running.depth == 0:
            if self._is_enough is not None and not self._ended["marked"]:
                # The recorder computes totals for marked steps only.
                _core.step()
            self._end_step("optimizer")
            self._end_if_enough()

    def user_stepped(self) -> None:
        """The program called `floodmark.step`."""
        self._end_step("marked")
        self._end_if_enough()

    def _before_pass(self) -> None:
        # Checked before the next pass, not after the last: a manual update belongs to its step.
        if not self._is_going_on:
            self._end_if_enough()

    def _after_pass(self) -> None:
        self._passes += 1
        if self._ended["marked"] or self._ended["optimizer"]:
            return
        has_optimizer = torch_private.has_made_optimizer(self._torch)
        if has_optimizer and self._passes < _MOST_PASSES:
            return
        if not self._ended["pass"]:
            why = (
                f"no optimizer has stepped in {self._passes} backward passes"
                if has_optimizer
                else "the program has no optimizer"
            )
            say(
                f"{why}: `--steps` counts calls of `backward()`; "
                "call `floodmark.step()` at the end of a step to count steps"
            )
        _core.step()
        self._end_step("pass")

    def _end_step(self, kind: str) -> None:
        self._ended[kind] += 1
        # Only the kind that counts is reported.
        if self._torch is not None and kind == self._kind:
            with OwnErrors():
                self._on_step(self._torch, self.count)
            if self._is_enough is not None and not self._had_enough:
                with OwnErrors():
                    self._had_enough = self._is_enough()

    def _end_if_enough(self) -> None:
        if self._limit is None or (self.count < self._limit and not self._had_enough):
            return
        # A pass is not a whole step: the update after it would count as the next one.
        if self._goes_on is not None and self._kind != "pass" and not self.has_ended:
            self._is_going_on = self._goes_on()
        if not self._is_going_on:
            self._end()

    @property
    def _kind(self) -> str:
        """The kind of step that counts."""
        return next((kind for kind, count in self._ended.items() if count), "pass")

    @property
    def count(self) -> int:
        """How many steps have ended."""
        return self._ended[self._kind]

    @property
    def has_ended(self) -> bool:
        """Whether `EnoughSteps` was raised."""
        return self._exits > 0

    def _end(self) -> None:
        self._exits += 1
        if self._exits == 1 and self._on_end is not None:
            with OwnErrors():
                self._on_end()
        if self._exits > _MOST_EXITS:
            # The program catches every exception: run the exit handlers, then end the process.
            atexit._run_exitfuncs()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0)
        raise EnoughSteps


#: Watches that end a program after enough steps.
_watches: list[StepWatch] = []


def user_stepped() -> None:
    """The program has called `floodmark.step`."""
    for watch in list(_watches):
        watch.user_stepped()


class Progress:
    """Prints the progress to stderr: in place on a terminal, as occasional lines elsewhere."""

    def __init__(self, peaks: Callable[[int], list[tuple[str, int]]], *, quiet: bool) -> None:
        self._peaks = peaks
        self.quiet = quiet
        self._peak = 0
        self._said = 0.0
        self._has_line = False
        try:
            self._is_terminal = sys.stderr.isatty()
        except (AttributeError, ValueError):
            self._is_terminal = False

    def step_ended(self, step: int) -> None:
        """A step ended."""
        is_due = step & (step - 1) == 0
        now = time.monotonic()
        if self._is_terminal:
            is_due = now - self._said >= _SECONDS_BETWEEN
        if self.quiet or not is_due or not self._has_peak():
            return
        gib, mib = self._peak / (1 << 30), self._peak / (1 << 20)
        peak = f"{gib:.2f} GiB" if gib >= 1 else f"{mib:.1f} MiB"
        line = f"floodmark: step {step}, peak {peak} so far"
        if not self._is_terminal:
            print(line, file=sys.stderr)
            return
        self._said = now
        self._has_line = True
        print(f"\r{line}\x1b[K", end="", file=sys.stderr, flush=True)

    def _has_peak(self) -> bool:
        """Read the peaks from the recorder: a program can reset torch's own."""
        peaks = [peak for device, peak in self._peaks(_WAIT_MILLIS) if device != "cpu"]
        self._peak = max(peaks, default=0)
        return self._peak > 0

    def close(self) -> None:
        """End the line on a terminal."""
        if self._has_line:
            with OwnErrors():
                print("\r\x1b[K", end="", file=sys.stderr, flush=True)
