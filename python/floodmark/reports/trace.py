"""Reading traces: questions and answers as Python values.

Talks to: `_core`, which computes the answers; these classes wrap them for Python.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar, cast

from floodmark import _core

if TYPE_CHECKING:
    import torch

    from floodmark.reports import answer_types

#: A device: its name, such as `"cuda:0"`, or torch's object.
DeviceLike: TypeAlias = "str | torch.device"

RowT = TypeVar("RowT")
DictT = TypeVar("DictT")


def _name(device: DeviceLike | None) -> str | None:
    return None if device is None else str(device)


class Answer(Generic[RowT, DictT]):
    """An answer with rows.

    Prints as a table, iterates as rows, has a length, and shows as an HTML table in a notebook.
    Rows are dictionaries; `floodmark.reports.answer_types` has their types.
    """

    # The entry of the JSON that has the rows.
    _rows = "rows"

    def __init__(
        self,
        core: _core.Report
        | _core.Diff
        | _core.Leaks
        | _core.Ledger
        | _core.Simulation
        | _core.Oom
        | _core.OomMessages
        | _core.Advice
        | _core.Estimate,
    ) -> None:
        self._answer = core
        self._json: dict[str, Any] | None = None

    def to_dict(self) -> DictT:
        """The documented JSON, as a dictionary."""
        return cast("DictT", self._document())

    def _document(self) -> dict[str, Any]:
        if self._json is None:
            self._json = json.loads(self._answer.to_json())
        return self._json

    def to_json(self) -> str:
        """The documented JSON."""
        return self._answer.to_json()

    @property
    def rows(self) -> list[RowT]:
        """The rows, in the order in which they print."""
        rows: list[RowT] = self._document()[self._rows]
        return rows

    @property
    def device(self) -> str:
        """`cuda:0`."""
        return str(self._document()["device"])

    def __iter__(self) -> Iterator[RowT]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, at: int) -> RowT:
        return self.rows[at]

    def __str__(self) -> str:
        return str(self._answer)

    def __repr__(self) -> str:
        return str(self._answer)

    def _repr_html_(self) -> str:
        return self._answer._repr_html_()


class Report(Answer[RowT, "answer_types.Report"]):
    """What filled a device at a chosen time.

    Converts to Arrow, pandas and Polars without Python objects in between.
    """

    def __init__(self, core: _core.Report) -> None:
        super().__init__(core)
        self._report = core

    @property
    def allocated(self) -> int:
        """Allocated bytes at that time: torch's total."""
        return self.to_dict()["allocated"]

    @property
    def active(self) -> int | None:
        """Active bytes, allocated or pending free; None on the CPU."""
        return self.to_dict()["active"]

    @property
    def reserved(self) -> int | None:
        """Reserved bytes; None on the CPU."""
        return self.to_dict()["reserved"]

    @property
    def losses(self) -> list[str]:
        """Warnings about lost events; empty for a complete recording."""
        return self.to_dict()["losses"]

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._report.__arrow_c_stream__(requested_schema)

    def to_arrow(self) -> Any:
        """The rows as a `pyarrow.Table`."""
        return _library("pyarrow", "to_arrow").table(self)

    def to_pandas(self) -> Any:
        """The rows as a `pandas.DataFrame`.

        Without pyarrow its cells are Python objects: a list of names with bytes is a dictionary.
        """
        pandas = _library("pandas", "to_pandas")
        if importlib.util.find_spec("pyarrow") is None:
            return pandas.DataFrame(self.rows)
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """The rows as a `polars.DataFrame`."""
        return _library("polars", "to_polars").DataFrame(self)


def _library(name: str, method: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise ModuleNotFoundError(
            f"{method}() needs {name}: `pip install {name}`", name=name
        ) from error


class Diff(Answer["answer_types.DiffRow", "answer_types.Diff"]):
    """What grew from one trace to another: rows that changed, the largest change first."""

    @property
    def allocated(self) -> answer_types.Total:
        """torch's totals at the two times: `a`, `b`, their `change` and the same in `percent`."""
        return self.to_dict()["allocated"]

    @property
    def peaks(self) -> answer_types.Peaks:
        """The peaks of `allocated` and `reserved` bytes of both traces, and their change."""
        return self.to_dict()["peaks"]


class Leaks(Answer["answer_types.Leak", "answer_types.Leaks"]):
    """The lines whose live bytes grow from step to step."""

    @property
    def growth(self) -> int:
        """Growth of the live bytes of all lines since the end of the first step."""
        return self.to_dict()["growth"]


class Ledger(Answer["answer_types.LedgerRow", "answer_types.Ledger"]):
    """All memory of a GPU by owner: rows that add up to the bytes in use."""

    @property
    def total(self) -> int:
        """All memory of the GPU."""
        return self.to_dict()["total"]

    @property
    def used(self) -> int:
        """What was in use, by all processes: the sum of the rows."""
        return self.to_dict()["used"]

    @property
    def outside_torch(self) -> int | None:
        """What the program had outside torch's allocator; None where NVML does not say it."""
        rows = (row["bytes"] for row in self if row["owner"] == "outside_torch")
        return next(rows, None)

    @property
    def unexplained(self) -> int:
        """What is left of the bytes in use."""
        return next(row["bytes"] for row in self if row["owner"] == "unexplained")

    @property
    def notes(self) -> list[str]:
        """What is unknown or approximate, and why."""
        return self.to_dict()["notes"]

    @property
    def over_time(self) -> list[answer_types.LedgerPoint]:
        """Every sample: the bytes in use, torch's, those outside torch, other processes'."""
        return self.to_dict()["over_time"]


class Simulation(Answer["answer_types.SimulatedRun", "answer_types.Simulation"]):
    """The same requests under other allocator settings or on another GPU: a row for each."""

    _rows = "runs"

    @property
    def recorded(self) -> answer_types.RecordedRun:
        """The recorded run, as a row."""
        return self.to_dict()["recorded"]

    @property
    def is_reproduced(self) -> bool:
        """Whether the simulation of the recorded settings gives the recorded bytes."""
        return self.to_dict()["is_reproduced"]

    @property
    def best(self) -> answer_types.SimulatedRun | None:
        """The row with the least reserved bytes that does not fail; None for a single row."""
        best = self.to_dict()["best"]
        return None if best is None else self.rows[best]


class Advice(Answer["answer_types.Advice", "answer_types.AdviceReport"]):
    """What to change: a row for each change, with the bytes that it saves by itself."""

    _rows = "advice"

    @property
    def notes(self) -> list[str]:
        """Checks that found nothing to change, or could not be made."""
        return self.to_dict()["notes"]


class Estimate(Answer["answer_types.DeviceEstimate", "answer_types.Estimate"]):
    """Whether a program fits on a simulated GPU: a row for each device."""

    _rows = "devices"

    def __init__(self, core: _core.Estimate) -> None:
        super().__init__(core)
        self._estimate = core

    def printed_for(self, request: _core.EstimateRequest) -> str:
        """What `floodmark estimate` prints: JSON, or text with bars and colours on a terminal."""
        return request.printed(self._estimate)

    @property
    def fits(self) -> bool | None:
        """Whether the program fits; None if it failed for another reason."""
        return self.to_dict()["fits"]

    @property
    def device(self) -> str:
        """The device with the most needed bytes."""
        return str(max(self.rows, key=lambda row: row["needed"])["device"])

    @property
    def peak_allocated(self) -> int:
        """The peak of torch's allocated bytes on a device."""
        return self.to_dict()["peak_allocated"]

    @property
    def peak_reserved(self) -> int:
        """The peak of torch's reserved bytes on a device."""
        return self.to_dict()["peak_reserved"]


class Moment:
    """A chosen time on a device; its methods list what was live."""

    def __init__(self, trace: Trace, at: str, device: DeviceLike | None) -> None:
        self._trace = trace
        self._at = at
        self._device = device

    def _by(self, by: str, top: int | None, torch_frames: bool = False) -> Report[Any]:
        return self._trace.report(
            by=by, at=self._at, device=self._device, top=top, torch_frames=torch_frames
        )

    def by_line(
        self, *, top: int | None = 25, torch_frames: bool = False
    ) -> Report[answer_types.LineRow]:
        """By line of the program; with `torch_frames`, torch's own lines too."""
        return self._by("line", top, torch_frames)

    def by_stack(self, *, top: int | None = 25) -> Report[answer_types.StackRow]:
        """By whole call stack."""
        return self._by("stack", top)

    def by_module(self, *, top: int | None = None) -> Report[answer_types.ModuleRow]:
        """By module, as a tree."""
        return self._by("module", top)

    def by_op(self, *, top: int | None = 25) -> Report[answer_types.OpRow]:
        """By operator, if operators were recorded."""
        return self._by("op", top)

    def by_op_call(self, *, top: int | None = 25) -> Report[answer_types.OpCallRow]:
        """By operator call, the largest growth first, if operators were recorded.

        `Trace.op_calls` has all of them in order.
        """
        return self._by("op-call", top)

    def by_parameter(self, *, top: int | None = None) -> Report[answer_types.ParameterRow]:
        """By parameter: weight, gradient and optimizer states."""
        return self._by("parameter", top)

    def by_phase(self) -> Report[answer_types.PhaseRow]:
        """By phase: forward, backward, optimizer, or a phase of the user."""
        return self._by("phase", None)

    def by_category(self) -> Report[answer_types.CategoryRow]:
        """By category: parameter, gradient, optimizer state, activation, …."""
        return self._by("category", None)

    def by_tensor(self, *, top: int | None = 25) -> Report[answer_types.TensorRow]:
        """By allocation, with names where they are known."""
        return self._by("tensor", top)

    def by_step(self) -> Report[answer_types.StepRow]:
        """By step: peak, end, growth."""
        return self._by("step", None)

    def by_segment(self, *, top: int | None = 25) -> Report[answer_types.SegmentRow]:
        """By segment: the blocks in it, and its wasted bytes."""
        return self._by("segment", top)


class Oom(Answer["answer_types.LineRow", "answer_types.OomReport"], Moment):
    """Why an allocation failed, and what was live then. Rows: live allocations, by line."""

    _rows = "lines"

    def __init__(self, core: _core.Oom, trace: Trace, device: DeviceLike | None) -> None:
        Answer.__init__(self, core)
        Moment.__init__(self, trace, "oom", device)

    @property
    def why(self) -> str:
        """`capacity`, `fragmentation`, `other_pool`, `pending_frees` or `outside_torch`."""
        return self.to_dict()["reason"]

    @property
    def requested(self) -> int:
        """Requested bytes."""
        return self.to_dict()["at"]["request"]["bytes"]


class Trace:
    """A recording that was read from a file; its methods answer questions about it."""

    def __init__(self, core: _core.Trace) -> None:
        self._core = core

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Trace:
        """Read a `.flood` file, finished or not, or a torch memory snapshot, also a compressed
        one."""
        return cls(_core.Trace.open(os.fspath(path)))

    def report(
        self,
        *,
        by: str = "line",
        at: str | float = "peak",
        device: DeviceLike | None = None,
        top: int | None = 25,
        torch_frames: bool = False,
    ) -> Report[answer_types.Row]:
        """What `floodmark report` prints, as a value."""
        return Report(
            self._core.report(
                by=by, at=str(at), device=_name(device), top=top, torch_frames=torch_frames
            )
        )

    def diff(
        self,
        other: Trace,
        *,
        by: str = "line",
        at: str | float = "peak",
        device: DeviceLike | None = None,
        top: int | None = 25,
        torch_frames: bool = False,
    ) -> Diff:
        """What `floodmark diff` prints, as a value: what grew from this trace to `other`."""
        return Diff(
            self._core.diff(
                other._core,
                by=by,
                at=str(at),
                device=_name(device),
                top=top,
                torch_frames=torch_frames,
            )
        )

    def leaks(self, *, device: DeviceLike | None = None, top: int | None = 25) -> Leaks:
        """What `floodmark leaks` prints, as a value: which lines grow from step to step."""
        return Leaks(self._core.leaks(device=_name(device), top=top))

    def ledger(self, *, at: str | float = "peak", device: DeviceLike | None = None) -> Ledger:
        """What `floodmark ledger` prints, as a value: whose memory is in use on a GPU."""
        return Ledger(self._core.ledger(at=str(at), device=_name(device)))

    def lifetimes(self, device: DeviceLike | None = None) -> list[answer_types.TensorLifetime]:
        """The lifetime of every tensor in the order of allocation, a dictionary each.

        Times are seconds since the recording began. `saved_seconds` is when autograd first saved it
        for the backward pass, `last_use_seconds` when that pass last read the saved tensor; None if
        that did not happen or is unknown. `freed_seconds` is None for a tensor that is live at the
        end. `module`, `name`, `category`, `phase`, `step`, `bytes`, `device` and `address` describe
        the tensor; `id` is the number of its allocation.
        """
        found: list[answer_types.TensorLifetime] = json.loads(
            self._core.lifetimes(device=_name(device))
        )
        return found

    def op_calls(self, device: DeviceLike | None = None) -> list[answer_types.OpCallRow]:
        """Every operator call that allocated, in order, a dictionary each.

        `end` is the allocated bytes when the next call began, `growth` the difference to the call
        before, `peak` the highest value in between; `op`, `module`, `step`, `phase` and `location`
        describe the call. Record with `ops=True`, `run --ops` or `estimate --ops`.
        """
        calls = self.end(device).by_op_call(top=None)
        known = [row for row in calls if row["call"] is not None]
        return sorted(known, key=lambda row: row["call"] or 0)

    def peak(self, device: DeviceLike | None = None) -> Moment:
        """The time of the peak."""
        return Moment(self, "peak", device)

    def oom(self, device: DeviceLike | None = None, top: int | None = 10) -> Oom:
        """What `floodmark oom` prints, as a value: why an allocation failed.

        It is also the time of that failure.
        """
        return Oom(self._core.oom(device=_name(device), top=top), self, device)

    def simulate(
        self,
        alloc_conf: str | Sequence[str] | None = None,
        *,
        memory: int | None = None,
        torch: str | None = None,
        sweep: bool = False,
        device: DeviceLike | None = None,
    ) -> Simulation:
        """What `floodmark simulate` prints, as a value: the same requests under other settings.

        `alloc_conf` is a value of PYTORCH_CUDA_ALLOC_CONF, or several; `memory` the bytes that
        torch may reserve; `torch` the version whose rules apply, such as "2.11"; `sweep` adds
        settings that often help.
        """
        confs = [alloc_conf] if isinstance(alloc_conf, str) else list(alloc_conf or [])
        return Simulation(
            self._core.simulate(
                alloc_confs=confs, memory=memory, torch=torch, sweep=sweep, device=_name(device)
            )
        )

    def advise(self, device: DeviceLike | None = None) -> Advice:
        """What `floodmark advise` prints, as a value: changes with the bytes that each saves."""
        return Advice(self._core.advise(device=_name(device)))

    def estimate(self) -> Estimate:
        """What `floodmark estimate` prints at its end, as a value."""
        return Estimate(self._core.estimate())

    def estimate_with(
        self,
        others: Sequence[Trace],
        *,
        ended: str,
        error: str,
        misses_process: bool,
        notes: Sequence[str],
        cost: str | None = None,
        rerun: Estimate | None = None,
    ) -> Estimate:
        """The estimate of a program of several processes; this trace is that of the first.

        `ended` and `error` are used if this trace has no end; `notes` are added to the answer. If a
        process has no complete trace, the answer is unknown. `cost` is the JSON of a `StepCost`
        that was measured after the recording, or `null` where it was asked for and no step could be
        measured; `rerun` is the estimate of the same program with more memory.
        """
        end = {
            "ended": ended,
            "error": error,
            "misses_process": misses_process,
            "is_for_plan": cost is not None,
            "cost": None if cost is None else json.loads(cost),
            "notes": list(notes),
        }
        cores = [other._core for other in others]
        again = None if rerun is None else rerun._estimate
        found = self._core.estimate_with(cores, json.dumps(end), again)
        return Estimate(found)

    def export(
        self,
        path: str | os.PathLike[str],
        to: str | None = None,
        *,
        device: DeviceLike | None = None,
        max_events: int | None = None,
    ) -> None:
        """What `floodmark export` writes: the trace in the format of another tool.

        `to` is "html", "speedscope", "perfetto", "chrome", "timeline", "svg", "png", "csv",
        "csv-steps", "collapsed", "flamegraph" or "torch-snapshot", or, for a folder, "parquet",
        "arrow" or "tensorboard". Without it the file's name decides: `.html`, `.svg`, `.csv`,
        `.pftrace`, `.parquet`, `.speedscope.json`, …. A file is replaced; a folder only if an
        export wrote all files in it.
        """
        self._core.export(os.fspath(path), to=to, device=_name(device), max_events=max_events)

    def end(self, device: DeviceLike | None = None) -> Moment:
        """The end of the recording."""
        return Moment(self, "end", device)

    def at(self, seconds: float, device: DeviceLike | None = None) -> Moment:
        """This many seconds after the recording began."""
        return Moment(self, repr(float(seconds)), device)

    def category_peaks(self, device: DeviceLike | None = None) -> list[answer_types.CategoryPeak]:
        """The peak of each category by itself, which may be at a different time than the total's.

        Rows have `category`, `peak`, and `backward_peak`: the peak of what the backward pass
        allocated.
        """
        peaks: list[answer_types.CategoryPeak] = json.loads(
            self._core.category_peaks(device=_name(device))
        )
        return peaks

    def summary(self) -> answer_types.Summary:
        """Peaks, times and counts."""
        summary: answer_types.Summary = json.loads(self._core.summary())
        return summary

    @property
    def header(self) -> answer_types.Header:
        """The program, the machine and the versions."""
        header: answer_types.Header = json.loads(self._core.header())
        return header

    def __str__(self) -> str:
        return self._core.summary_text()
