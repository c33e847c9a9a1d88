"""Puts the following of values into a process: below all modes, on all threads.

Sees: torch as it is imported. Talks to: `phantom_values`, through `_core.Functions` and
`_core.Kernel`.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import types
from collections.abc import Callable
from types import ModuleType
from typing import Any

from floodmark import _core, torch_private
from floodmark.estimate.device.library import Phantom
from floodmark.estimate.values import kernels
from floodmark.estimate.values.phantom_values import Values
from floodmark.recording.import_watch import ImportWatch


def install(phantom: Phantom) -> None:
    """Follow the values of this process, from the moment torch is imported."""

    def begin(torch: ModuleType) -> None:
        from torch.overrides import TorchFunctionMode

        values = Values(phantom, torch)
        phantom.values = values
        kinds = [v for v in vars(torch).values() if isinstance(v, torch.dtype)]
        floats = [kind for kind in kinds if kind.is_floating_point or kind.is_complex]
        own_work = _core.OwnWork(*torch_private.out_of_sight(torch))
        functions = _core.Functions(
            values,
            own_work,
            torch.Tensor,
            torch.nn.Parameter,
            types.MethodWrapperType,
            floats,
            *torch_private.transforms(torch),
            phantom.library.has_value,
        )

        class FollowValues(TorchFunctionMode):  # type: ignore[misc]
            """Every call of torch that the program makes passes here."""

        def enter() -> None:
            mode = FollowValues()
            mode.__torch_function__ = types.MethodType(functions, mode)
            modes = torch_private.function_modes(torch)
            torch_private.set_function_modes([*modes, mode])

        def leave() -> Callable[[], None]:
            """Follow nothing until the result is called: compiled code has no calls to follow."""
            modes = torch_private.function_modes(torch)
            others = [mode for mode in modes if not isinstance(mode, FollowValues)]
            torch_private.set_function_modes(others)
            return enter if len(others) < len(modes) else _do_nothing

        enter()
        _enter_in_threads(enter)
        phantom.kernels = kernels.Kernels(torch, values, own_work, floats)
        values.at_transform = phantom.kernels.add_arithmetic

        def stop() -> None:
            leave()
            values.at_transform = _do_nothing
            phantom.kernels = None

        phantom.stop_following = stop

        def prepare_for_compiled(eval_frame: ModuleType) -> None:
            _keep_out_of_graphs(eval_frame, values)
            _leave_when_compiled(eval_frame, leave)

        ImportWatch(torch_private.COMPILER, prepare_for_compiled)
        for name, slots in torch_private.COMPILER_ENTRIES.items():
            ImportWatch(name, functools.partial(_leave_in, slots, leave))

        def after_launch(args: Any, kwargs: Any) -> None:
            own_work(values.after_launch, args, kwargs)

        ImportWatch("triton.runtime.jit", lambda module: _watch_launches(module, after_launch))

    ImportWatch("torch", begin)


def _do_nothing() -> None:
    return None


def _keep_out_of_graphs(eval_frame: ModuleType, values: Values) -> None:
    """Kernels of ours run in compiled code, too: Dynamo would compile what they call."""
    for name in ("before_count", "after_count", "follow"):
        setattr(values, name, eval_frame.DisableContext()(getattr(values, name)))


def _leave_when_compiled(eval_frame: ModuleType, leave: Callable[[], Callable[[], None]]) -> None:
    """Dynamo would take our mode for a part of the program, and break its graphs at every call."""
    context = torch_private.compiler_context(eval_frame)
    init = context.__init__

    def begun(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        with contextlib.suppress(AttributeError):
            self.enter_exit_hooks.append(leave)

    context.__init__ = begun


def _leave_in(
    slots: tuple[str, ...], leave: Callable[[], Callable[[], None]], module: ModuleType
) -> None:
    """The same for functions that compile, or check guards, without such a context."""
    for slot in slots:
        path, _, name = slot.rpartition(".")
        owner = getattr(module, path, None) if path else module
        function = getattr(owner, name, None)
        if function is not None:
            setattr(owner, name, _without_mode(function, leave))


def _without_mode(
    function: Callable[..., Any], leave: Callable[[], Callable[[], None]]
) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        enter = leave()
        try:
            return function(*args, **kwargs)
        finally:
            enter()

    return call


def _watch_launches(jit: ModuleType, after_launch: Callable[[Any, Any], None]) -> None:
    """A kernel of Triton may write to each of its tensors, and no function of torch says so."""
    run = jit.JITFunction.run

    def launched(self: Any, *args: Any, **kwargs: Any) -> Any:
        kernel = run(self, *args, **kwargs)
        after_launch(args, kwargs)
        return kernel

    jit.JITFunction.run = launched


def _enter_in_threads(enter: Any) -> None:
    """Threads that the program starts begin without a mode: give them one."""
    bootstrap = getattr(threading.Thread, "_bootstrap_inner", None)
    if bootstrap is None:
        return

    def begun(thread: threading.Thread) -> None:
        with contextlib.suppress(Exception):
            enter()
        bootstrap(thread)

    threading.Thread._bootstrap_inner = begun  # type: ignore[attr-defined]
