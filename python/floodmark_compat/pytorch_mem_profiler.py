"""`pytorch_mem_profiler`: a table of weights, gradients and feature maps while a model trains.

    from floodmark_compat.pytorch_mem_profiler import *

    profiler = memory_profiler(model, print_period=5, csv=True)
    for epoch in range(num_epochs):
        for batch in loader:
            ...
            profiler.record_stats()
        profiler.epoch_end()

What differs, and why it is better:

- Feature maps are what a forward pass allocated and the backward pass needs, of one iteration, at
  the time of their peak. The original adds up outputs of layers over a whole epoch, also of those
  that are freed by then, and counts memory that is used again once.
- Intermediate gradients are what the backward pass allocated and freed, at the time of their peak.
  Weight gradients are not among them. The original sees those of the outermost module only, by a
  hook that torch no longer has.
- Gradients count also when the iteration set them to None before `record_stats`.
- Only iterations that are printed are recorded.
- Parameters that share memory count once in the totals.
- The CPU too: it caches nothing, so `cached` is what is allocated.

MB are 10^6 bytes, as in the original.
"""

from __future__ import annotations

import atexit
import csv as _csv
import weakref
from datetime import datetime
from pathlib import Path
from typing import Any

from floodmark import _core, torch_private
from floodmark.recording.recorder import Recorder, trace
from floodmark.reports.trace import Trace

__all__ = ["memory_profiler"]

_FOLDER = Path("memory_csv_data")
_NAME_WIDTH = 35


class memory_profiler:
    """Prints what memory is used for, every `print_period` iterations.

    `model` is the `torch.nn.Module` that is trained. With `csv` the same goes to a file in
    `./memory_csv_data/`, named after the time.
    """

    def __init__(self, model: Any, print_period: int = 1, csv: bool = False) -> None:
        self.print_period = _checked(print_period)
        self.model = model
        self.csv = csv
        self.iteration = 0
        self.epoch = 1
        self.fname = ""
        self._peak_cached = 0
        self._parameters: dict[str, Any] = dict(model.named_parameters())
        if csv:
            self._begin_file()
        self._watch = _Watch(self._parameters)
        self._prepare()
        # A profiler that the program drops, and one that it has at its end, stops recording.
        weakref.finalize(self, self._watch.close).atexit = False
        atexit.register(self._watch.close)

    def record_stats(self) -> None:
        """Say that an iteration ended; prints when it is one of every `print_period`."""
        self.iteration += 1
        if self._watch.is_on:
            figures = self._figures()
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
        self._watch.stop()
        if (self.iteration + 1) % self.print_period == 0:
            self._watch.start(_device_name(self._device()))

    def _device(self) -> Any:
        return next((tensor.device for tensor in self._parameters.values()), None)

    def _figures(self) -> _Figures:
        watch = self._watch
        watch.stop()
        trace = watch.trace()
        device = self._device()
        name = _device_name(device)
        figures = _Figures()
        found = [] if trace is None else trace.summary()["devices"]
        found = [each for each in found if each["device"] == name]
        if name != "cpu":
            import torch

            figures.peak_cached = torch.cuda.max_memory_reserved(device)
            figures.current_cached = torch.cuda.memory_reserved(device)
        elif trace is not None:
            self._peak_cached = max([self._peak_cached, *(each["peak"] for each in found)])
            figures.peak_cached = self._peak_cached
            figures.current_cached = sum(each["end"] for each in found)
        if trace is not None and found:
            peaks = {row["category"]: row for row in trace.category_peaks(name)}
            figures.feature_maps = peaks.get("activation", {"peak": 0})["peak"]
            figures.intermediate = peaks.get("temporary", {"backward_peak": 0})["backward_peak"]
        figures.weights = {key: _bytes(tensor) for key, tensor in self._parameters.items()}
        figures.weight_total = _shared_once(self._parameters)
        figures.gradients = {key: watch.gradients.get(key, 0) for key in self._parameters}
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


class _Watch:
    """Records single iterations, and notes the gradients that each of them computed."""

    def __init__(self, parameters: dict[str, Any]) -> None:
        self.gradients: dict[str, int] = {}
        self.is_on = False
        self._parameters = {name: each for name, each in parameters.items() if each.requires_grad}
        self._hooks: list[Any] = []
        self._recorder: Recorder | None = None

    def start(self, device: str) -> None:
        """Record from here on."""
        self.gradients.clear()
        if not self._hooks:
            for name, tensor in self._parameters.items():
                self._hooks.append(tensor.register_hook(self._labelling(name)))
                hook = tensor.register_post_accumulate_grad_hook(self._noting(name))
                self._hooks.append(hook)
        self._recorder = trace(devices=[device]).start()
        self.is_on = True

    def stop(self) -> None:
        """End the recording. The hooks stay for the next one, and do nothing until then."""
        if self.is_on and self._recorder is not None:
            self.is_on = False
            self._recorder.stop()

    def close(self) -> None:
        """End the recording and take the hooks off."""
        atexit.unregister(self.close)
        self.stop()
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()

    def _labelling(self, name: str) -> Any:
        """A weight gradient is computed: it is one also where the program takes it from
        `torch.autograd.grad`, and no parameter ever has it."""

        def label(gradient: Any) -> None:
            if self.is_on and not gradient.is_sparse:
                self.gradients[name] = gradient.numel() * gradient.element_size()
                _core.label_tensor(gradient, "gradient", name)

        return label

    def _noting(self, name: str) -> Any:
        def note(tensor: Any) -> None:
            if self.is_on and tensor.grad is not None:
                self.gradients[name] = _bytes(tensor.grad)

        return note

    def trace(self) -> Trace | None:
        """What was recorded; None when nothing could be."""
        recorder = self._recorder
        return None if recorder is None or recorder.failure else recorder.trace


def _checked(period: Any) -> int:
    """A period, which is a positive integer."""
    if isinstance(period, bool) or not hasattr(period, "__index__"):
        raise TypeError(f"print_period must be a positive integer, not {period!r}")
    if period < 1:
        raise ValueError(f"print_period must be a positive integer, not {period}")
    return int(period)


def _device_name(device: Any) -> str:
    return f"cuda:{device.index or 0}" if device is not None and device.type == "cuda" else "cpu"


def _bytes(tensor: Any) -> int:
    if tensor.is_sparse:
        parts = torch_private.sparse_parts(tensor)
        return sum(part.numel() * part.element_size() for part in parts)
    return int(torch_private.local_part(tensor).untyped_storage().nbytes())


def _shared_once(tensors: dict[str, Any]) -> int:
    """The bytes of all storages, each counted once."""
    storages = {}
    for tensor in tensors.values():
        storage = torch_private.local_part(tensor).untyped_storage()
        storages[storage.data_ptr()] = int(storage.nbytes())
    return sum(storages.values())


def _mb(count: int | None, unknown: str = "") -> str:
    return unknown if count is None else str(round(count / 1e6))
