"""`pytorch_mem_profiler`: a table of weights, gradients and feature maps while a model trains.

    from floodmark.compat.pytorch_mem_profiler import *

    profiler = memory_profiler(model, print_period=5, csv=True)
    for epoch in range(num_epochs):
        for batch in loader:
            ...
            profiler.record_stats()
        profiler.epoch_end()

What differs, and why it is better:

- Feature maps are what a forward pass made and the backward pass needs, of one iteration. The
  original adds up outputs of layers over a whole epoch, also of those that are gone by then, and
  counts memory that is used again once.
- Intermediate gradients are what the backward pass made and let go of, where there was most of it.
  The original sees those of the outermost module only, by a hook that torch no longer has.
- Gradients count also when the iteration set them to None before `record_stats`.
- Only iterations that are printed are recorded; no hook runs in the others.
- Parameters that share memory count once in the totals.
- The CPU too: it caches nothing, so `cached` is what is allocated.

MB are 10^6 bytes, as in the original.
"""

from __future__ import annotations

import csv as _csv
import time
from datetime import datetime
from pathlib import Path
from typing import Any

from floodmark import _compat, _recorder
from floodmark._trace import Moment, Trace

__all__ = ["memory_profiler"]

_FOLDER = Path("memory_csv_data")
_NAME_WIDTH = 35


class memory_profiler:
    """Prints what memory is used for, every `print_period` iterations.

    `model` is the `torch.nn.Module` that is trained. With `csv` the same goes to a file in
    `./memory_csv_data/`, named after the time.
    """

    def __init__(self, model: Any, print_period: int = 1, csv: bool = False) -> None:
        if print_period < 1:
            raise ValueError(f"print_period must be 1 or more, not {print_period}")
        self.model = model
        self.print_period = print_period
        self.csv = csv
        self.iteration = 0
        self.epoch = 1
        self.fname = ""
        self._watched: _Iteration | None = None
        self._peak_cached = 0
        self._parameters: dict[str, Any] = dict(model.named_parameters())
        if csv:
            self._begin_file()
        self._prepare()

    def record_stats(self) -> None:
        """Say that an iteration ended; prints when it is one of every `print_period`."""
        self.iteration += 1
        if self._watched is not None:
            figures = self._figures(self._watched)
            self._watched = None
            self._print(figures)
            if self.csv:
                self._write(figures)
        self._prepare()

    def epoch_end(self) -> None:
        """Say that an epoch ended; iterations count from 1 again."""
        print(f"Epoch {self.epoch} finished")
        self.iteration = 0
        self.epoch += 1
        self._prepare()

    def _prepare(self) -> None:
        """Record the iteration that begins, if it is to be printed."""
        if self._watched is not None:
            self._watched.stop()
            self._watched = None
        if (self.iteration + 1) % self.print_period == 0:
            self._watched = _Iteration(self.model, self._parameters)

    def _device(self) -> Any:
        return next((tensor.device for tensor in self._parameters.values()), None)

    def _figures(self, watched: _Iteration) -> _Figures:
        watched.stop()
        device = self._device()
        is_cuda = device is not None and device.type == "cuda"
        trace = watched.trace()
        name = f"cuda:{device.index or 0}" if is_cuda else "cpu"
        figures = _Figures()
        if is_cuda:
            import torch

            figures.peak_cached = torch.cuda.max_memory_reserved(device)
            figures.current_cached = torch.cuda.memory_reserved(device)
        elif trace is not None:
            found = [each for each in trace.summary()["devices"] if each["device"] == name]
            self._peak_cached = max([self._peak_cached, *(each["peak"] for each in found)])
            figures.peak_cached = self._peak_cached
            figures.current_cached = sum(each["end"] for each in found)
        if trace is not None and any(e["device"] == name for e in trace.summary()["devices"]):
            figures.feature_maps = watched.most("activation", trace, name, watched.forwards)
            figures.intermediate = watched.intermediate(trace, name)
        figures.weights = {key: _bytes(tensor) for key, tensor in self._parameters.items()}
        figures.weight_total = _shared_once(self._parameters)
        figures.gradients = {key: watched.gradients.get(key, 0) for key in self._parameters}
        return figures

    def _print(self, figures: _Figures) -> None:
        names = [f"  {name} grad" for name in self._parameters]
        width = max([_NAME_WIDTH, *(len(name) + 2 for name in names)])

        def line(name: str, count: int | None) -> None:
            print(f"{name:.<{width}}{_mb(count, unknown='?'):.>5} MB")

        stars = "*" * (width + 8)
        print(f"\n{stars}\nMemory Usage for Iteration {self.iteration} of Epoch {self.epoch}")
        print(stars)
        line("Peak cached", figures.peak_cached)
        line("Current cached", figures.current_cached)
        line("Total feature map usage", figures.feature_maps)
        print()
        line("Total layer weight usage", figures.weight_total)
        for name, count in figures.weights.items():
            line(f"  {name}", count)
        print()
        line("Total layer weight gradient usage", sum(figures.gradients.values()))
        for name, count in figures.gradients.items():
            line(f"  {name} grad", count)
        line("Intermediate gradients", figures.intermediate)

    def _begin_file(self) -> None:
        _FOLDER.mkdir(exist_ok=True)
        started = datetime.now().strftime("%Y%m%d%H%M%S")
        path = _FOLDER / f"{started}.csv"
        # Two profilers of one second do not write into one file.
        count = 1
        while path.exists():
            count += 1
            path = _FOLDER / f"{started}-{count}.csv"
        self.fname = f"./{path}"
        columns = ["epoch", "iteration", "peak_cached", "current_cached"]
        columns += ["total_feature_map_usage", "total_weight_usage", *self._parameters]
        columns += ["total_layer_weight_gradient_usage"]
        columns += [f"{name}_grad" for name in self._parameters]
        self._append([*columns, "intermediate_gradients"])
        print(f"Logging data in {self.fname}")

    def _write(self, figures: _Figures) -> None:
        counts = [figures.peak_cached, figures.current_cached, figures.feature_maps]
        counts += [figures.weight_total, *figures.weights.values()]
        counts += [sum(figures.gradients.values()), *figures.gradients.values()]
        counts += [figures.intermediate]
        self._append([self.epoch, self.iteration, *map(_mb, counts)])

    def _append(self, row: list[Any]) -> None:
        with open(self.fname, "a", newline="") as file:
            _csv.writer(file, lineterminator="\n").writerow(row)


class _Figures:
    """One table: bytes, and None where nothing could be recorded."""

    def __init__(self) -> None:
        self.peak_cached: int | None = None
        self.current_cached: int | None = None
        self.feature_maps: int | None = None
        self.intermediate: int | None = None
        self.weight_total = 0
        self.weights: dict[str, int] = {}
        self.gradients: dict[str, int] = {}


class _Iteration:
    """A recording of one iteration, with the moments at which forward and backward passes stand."""

    def __init__(self, model: Any, parameters: dict[str, Any]) -> None:
        self.forwards: list[float] = []
        self.gradients: dict[str, int] = {}
        self._backwards: list[float] = []
        self._hooks = [model.register_forward_hook(self._after_forward)]
        for name, tensor in parameters.items():
            if tensor.requires_grad:
                hook = tensor.register_post_accumulate_grad_hook(self._after_gradient(name))
                self._hooks.append(hook)
        self._recorder = _recorder.trace().start()

    def _after_forward(self, *_: object) -> None:
        self.forwards.append(time.time())

    def _after_gradient(self, name: str) -> Any:
        def note(tensor: Any) -> None:
            self._backwards.append(time.time())
            if tensor.grad is not None:
                self.gradients[name] = _bytes(tensor.grad)

        return note

    def stop(self) -> None:
        """End the recording and take the hooks off."""
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()
        self._recorder.stop()

    def trace(self) -> Trace | None:
        """What was recorded; None when another recording had begun."""
        return None if self._recorder.failure else self._recorder.trace

    def most(self, category: str, trace: Trace, device: str, times: list[float]) -> int:
        """The most that a category had at these times."""
        began = trace.header["started_unix_micros"] / 1e6
        moments = [trace.at(max(at - began, 0.0), device) for at in times]
        return max((_of_category(category, moment) for moment in moments), default=0)

    def intermediate(self, trace: Trace, device: str) -> int:
        """Temporaries where the backward pass stood highest, as far as that is known."""
        peak = trace.peak(device)
        if peak.by_phase().to_dict()["at"]["phase"] == "backward":
            return _of_category("temporary", peak)
        # The peak is elsewhere: whenever a gradient was ready, somebody saw the pass at work.
        return self.most("temporary", trace, device, self._backwards)


def _of_category(category: str, moment: Moment) -> int:
    return sum(int(row["bytes"]) for row in moment.by_category() if row["category"] == category)


def _bytes(tensor: Any) -> int:
    return int(_compat.local_part(tensor).untyped_storage().nbytes())


def _shared_once(tensors: dict[str, Any]) -> int:
    """The bytes of all storages, each counted once."""
    storages = {}
    for tensor in tensors.values():
        storage = _compat.local_part(tensor).untyped_storage()
        storages[storage.data_ptr()] = int(storage.nbytes())
    return sum(storages.values())


def _mb(count: int | None, unknown: str = "") -> str:
    return unknown if count is None else str(round(count / 1e6))
