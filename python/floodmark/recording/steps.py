"""How many steps a program has made, and its end after enough of them.

A step is what the program says (`floodmark.step`), otherwise a step of an optimizer. Where the
program has no optimizer, `--steps` counts backward passes.

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

#: An optimizer that makes no step in this many backward passes is not waited for.
_MOST_PASSES = 1000

#: A program that catches our exit goes on to the next step; so often it may.
_MOST_EXITS = 3

#: For the recorder's writer, which needs a few milliseconds.
_WAIT_MILLIS = 1000

#: A line on a terminal is not written more often than this.
_SECONDS_BETWEEN = 0.1


class EnoughSteps(SystemExit):
    """Ends the program as `sys.exit(0)` would.

    `except Exception` does not catch it, `finally` and `with` run, handlers of `atexit` run, and
    all that lets `SystemExit` pass (launchers, trainers, `multiprocessing`) lets this pass.
    """

    def __init__(self) -> None:
        super().__init__(0)


class StepWatch:
    """Counts steps; one that is made inside another counts with it."""

    def __init__(
        self,
        limit: int | None,
        on_step: Callable[[ModuleType, int], None],
        tell_end: Callable[[], None] | None = None,
        goes_on: Callable[[], bool] | None = None,
        *,
        is_enough: Callable[[], bool] | None = None,
    ) -> None:
        self._limit = limit
        self._on_step = on_step
        self._tell_end = tell_end
        #: Asked at the end of each step from the last one that is wanted on.
        self._goes_on = goes_on
        self._is_going_on = False
        #: Asked at the end of each step before the limit.
        self._is_enough = is_enough
        self._had_enough = False
        self._torch: ModuleType | None = None
        self._running = _core.RunningSteps()
        self._handles: list[Any] = []
        self._exits = 0
        #: How often each kind of step has ended; the first kind that has any counts.
        self._ended = {"said": 0, "optimizer": 0, "pass": 0}
        self._passes = 0
        self._pass_watch: PassWatch | None = None

    def attach(self, torch: ModuleType) -> None:
        """torch is imported: listen to every optimizer."""
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
        """Listen no more."""
        if self._pass_watch is not None:
            self._pass_watch.remove()
            _watches.remove(self)
            self._pass_watch = None
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def _before(self, *_: object) -> None:
        if self._running.begin(1) and self._running.depth == 1:
            # It has ended with what it raised, and the program goes on.
            self._end_step("optimizer")
            self._end_if_enough()

    def _after(self, *_: object) -> None:
        self._running.end(1)
        if self._running.depth == 0:
            if self._is_enough is not None and not self._ended["said"]:
                # The recorder adds up the steps that are marked.
                _core.step()
            self._end_step("optimizer")
            self._end_if_enough()

    def user_stepped(self) -> None:
        """The program says that a step ended."""
        self._end_step("said")
        self._end_if_enough()

    def _before_pass(self) -> None:
        # Not right after the last pass: an update that is made by hand is part of its step.
        if not self._is_going_on:
            self._end_if_enough()

    def _after_pass(self) -> None:
        self._passes += 1
        if self._ended["said"] or self._ended["optimizer"]:
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
        # Another kind may be the one that counts, and is reported by itself.
        if self._torch is not None and kind == self._kind:
            with OwnErrors():
                self._on_step(self._torch, self.count)
            if self._is_enough is not None and not self._had_enough:
                with OwnErrors():
                    self._had_enough = self._is_enough()

    def _end_if_enough(self) -> None:
        if self._limit is None or (self.count < self._limit and not self._had_enough):
            return
        # A pass is not a whole step: what follows it could not be told apart.
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
        """Whether the program was asked to end."""
        return self._exits > 0

    def _end(self) -> None:
        self._exits += 1
        if self._exits == 1 and self._tell_end is not None:
            with OwnErrors():
                self._tell_end()
        if self._exits > _MOST_EXITS:
            # The program catches everything. What must still be done is done, then it ends.
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
    """Says on stderr how far the program is: in place on a terminal, now and then elsewhere."""

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
        """Ask the recorder, whose peaks a program cannot reset as it can torch's."""
        peaks = [peak for device, peak in self._peaks(_WAIT_MILLIS) if device != "cpu"]
        self._peak = max(peaks, default=0)
        return self._peak > 0

    def close(self) -> None:
        """Leave no half line behind."""
        if self._has_line:
            with OwnErrors():
                print("\r\x1b[K", end="", file=sys.stderr, flush=True)
