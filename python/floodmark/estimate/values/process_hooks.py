"""Installs the computing of values in a process: below all modes, on all threads.

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
    """Follow the values of this process once torch is imported."""

    def begin(torch: ModuleType) -> None:
        from torch.overrides import TorchFunctionMode

        values = Values(phantom, torch)
        phantom.values = values
        kinds = [v for v in vars(torch).values() if isinstance(v, torch.dtype)]
        floats = [kind for kind in kinds if kind.is_floating_point or kind.is_complex]
        own_work = _core.OwnWork(*torch_private.without_program_state(torch))
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
            """A mode that sees every call of a torch function."""

        def enter() -> None:
            mode = FollowValues()
            mode.__torch_function__ = types.MethodType(functions, mode)
            modes = torch_private.function_modes(torch)
            torch_private.set_function_modes([*modes, mode])

        def leave() -> Callable[[], None]:
            """Stop following until the result is called: compiled code makes no calls of torch."""
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

        def follow() -> Callable[[], object]:
            """Follow on this thread until the result is called, where nothing does yet."""
            modes = torch_private.function_modes(torch)
            torch_private.set_function_modes(modes)
            is_followed = any(isinstance(mode, FollowValues) for mode in modes)
            if is_followed or phantom.kernels is None:
                return _do_nothing
            enter()
            return leave

        checkpointing = functools.partial(_follow_recomputation, follow)
        ImportWatch("torch.utils.checkpoint", checkpointing)

        def after_launch(args: Any, kwargs: Any) -> None:
            own_work(values.after_launch, args, kwargs)

        ImportWatch("triton.runtime.jit", lambda module: _watch_launches(module, after_launch))

    ImportWatch("torch", begin)


def _do_nothing() -> None:
    return None


def _keep_out_of_graphs(eval_frame: ModuleType, values: Values) -> None:
    """Keep Dynamo from compiling the functions that our kernels call in compiled code."""
    for name in ("before_count", "after_count", "follow"):
        setattr(values, name, eval_frame.DisableContext()(getattr(values, name)))


def _leave_when_compiled(eval_frame: ModuleType, leave: Callable[[], Callable[[], None]]) -> None:
    """Remove our mode around compiled code: Dynamo would break the graph at every call."""
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
    """The same for functions that compile or check guards outside such a context."""
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


def _follow_recomputation(
    follow: Callable[[], Callable[[], object]], checkpointing: ModuleType
) -> None:
    """Follow what a backward pass computes again, on a thread of autograd.

    It must read what the forward pass has read, or it computes something else.
    """
    frame = torch_private.checkpoint_frame(checkpointing)
    if frame is None:
        return
    init = frame.__init__

    def begun(self: Any, recompute: Callable[..., None], *args: Any, **kwargs: Any) -> None:
        @functools.wraps(recompute)
        def followed(*inputs: Any) -> None:
            end = follow()
            try:
                recompute(*inputs)
            finally:
                end()

        init(self, followed, *args, **kwargs)

    frame.__init__ = begun


def _watch_launches(jit: ModuleType, after_launch: Callable[[Any, Any], None]) -> None:
    """Watch launches of Triton: a kernel may write to each of its tensors."""
    run = jit.JITFunction.run

    def launched(self: Any, *args: Any, **kwargs: Any) -> Any:
        kernel = run(self, *args, **kwargs)
        after_launch(args, kwargs)
        return kernel

    jit.JITFunction.run = launched


def _enter_in_threads(enter: Any) -> None:
    """Enter the mode in new threads, which start without one."""
    bootstrap = getattr(threading.Thread, "_bootstrap_inner", None)
    if bootstrap is None:
        return

    def begun(thread: threading.Thread) -> None:
        with contextlib.suppress(Exception):
            enter()
        bootstrap(thread)

    threading.Thread._bootstrap_inner = begun  # type: ignore[attr-defined]
