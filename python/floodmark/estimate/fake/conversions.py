"""Converts fake tensors to numbers, lists, arrays, copies and files, and follows them to threads.

Fake tensors have no values, so a read returns an assumed value, which `values.fake_reads` lists,
and a file gets a shape that cannot be mistaken for values. Sees: torch. Knows nothing of memory.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

from floodmark import torch_private, torch_private_fakes
from floodmark.estimate.fake import files
from floodmark.estimate.fake.engine import Engine
from floodmark.estimate.values.fake_reads import Reads
from floodmark.plugins import Plugin, Setting


class Conversions(Plugin):
    """Patches the functions that convert tensors to other objects."""

    name = "torch.leaving"
    library = "torch"

    def __init__(self, setting: Setting, engine: Engine, reads: Reads) -> None:
        super().__init__(setting)
        self._engine = engine
        self._reads = reads

    def attach(self, torch: ModuleType) -> None:
        """Patch torch."""
        self._replace_reads(torch)
        self._make_from_fakes(torch)
        self._give_addresses(torch)
        self._copy(torch)
        self._scale(torch)
        self._pin(torch)
        self._follow_threads()
        self._write(torch)
        self._keep_random_states(torch)
        self._run_as_written(torch)

    def _replace_reads(self, torch: Any) -> None:
        """`numpy`, `tolist` and `format` read data below every mode."""
        fake = torch_private_fakes.fake_tensor_class()
        reads = self._reads
        formatted = fake.__format__

        def to_numpy(tensor: Any, *, force: bool = False) -> Any:
            import numpy

            _refuse_numpy(tensor, force)
            known = reads.value_of(tensor)
            with torch_private.outside_modes():
                if known is not None:
                    return known.detach().numpy()
                kind = torch.zeros((), dtype=tensor.dtype).numpy().dtype
            reads.note("numpy", "zeros")
            return numpy.zeros(tuple(tensor.shape), kind)

        def to_list(tensor: Any) -> Any:
            if tensor.dim() == 0:
                return tensor.item()
            known = reads.value_of(tensor)
            if known is not None:
                with torch_private.outside_modes():
                    return known.tolist()
            value = 0.0 if tensor.dtype.is_floating_point else 0
            if tensor.dtype == torch.bool:
                value = False
            reads.note("tolist", f"{value} each")
            return _nested(tuple(tensor.shape), value)

        def formatted_as(tensor: Any, how: str) -> str:
            if tensor.dim() == 0 and how:
                return format(tensor.item(), how)
            text: str = formatted(tensor, how)
            return text

        self.replace(fake, "numpy", to_numpy)
        self.replace(fake, "tolist", to_list)
        self.replace(fake, "__format__", formatted_as)

    def _make_from_fakes(self, torch: Any) -> None:
        """`torch.tensor([loss, 1.0])` reads its numbers below every mode."""
        fake = torch_private_fakes.fake_tensor_class()

        def with_numbers(make: Callable[..., Any]) -> Callable[..., Any]:
            def made(data: Any, *args: Any, **kwargs: Any) -> Any:
                if isinstance(data, (list, tuple)) and _has(data, fake):
                    data = _numbers(data, fake)
                return make(data, *args, **kwargs)

            return made

        for name in ("tensor", "as_tensor"):
            self.replace(torch, name, with_numbers(getattr(torch, name)))

    def _give_addresses(self, torch: Any) -> None:
        """Programs detect shared tensors and flattened weights by their addresses."""
        address = self._engine.operators.address
        fake = torch_private_fakes.fake_tensor_class()
        data_ptr = torch.UntypedStorage.data_ptr

        def storage_address(storage: Any) -> int:
            if not torch_private_fakes.is_fake_storage(storage) and storage.device.type != "meta":
                return int(data_ptr(storage))
            if not storage.nbytes():
                return 0
            # Host memory has no simulated address; the number is unique for each storage.
            identity = torch_private.storage_id(storage)
            return int(address(identity) or identity)

        def tensor_address(tensor: Any) -> int:
            start = storage_address(tensor.untyped_storage())
            return start and start + int(tensor.storage_offset()) * tensor.element_size()

        self.replace(torch.UntypedStorage, "data_ptr", storage_address)
        self.replace(fake, "data_ptr", tensor_address)

    def _copy(self, torch: Any) -> None:
        """`copy.deepcopy` copies storages, which have no data for fake tensors."""
        fake = torch_private_fakes.fake_tensor_class()
        real_copy = torch.Tensor.__deepcopy__

        def copied(tensor: Any, memo: dict[int, Any]) -> Any:
            with torch_private.outside_modes():
                return real_copy(tensor, memo)

        self.replace(torch.Tensor, "__deepcopy__", copied)
        self.replace(fake, "__deepcopy__", lambda tensor, memo: _deep_copy(torch, tensor, memo))

    def _scale(self, torch: Any) -> None:
        """Steps are assumed not to overflow, so a `GradScaler` keeps its first scale."""
        from torch.amp import grad_scaler

        reads = self._reads
        scale = grad_scaler.GradScaler.get_scale

        def first_scale(scaler: Any) -> float:
            first = torch_private.first_scale(scaler)
            if not scaler.is_enabled() or first is None:
                return float(scale(scaler))
            reads.note("get_scale", str(first))
            return first

        self.replace(grad_scaler.GradScaler, "get_scale", first_scale)

    def _pin(self, torch: Any) -> None:
        """Pinned memory is host memory: no GPU allocates it."""
        aten = torch.ops.aten
        self.setting.operators[aten.is_pinned.default] = _never
        for name in ("randn", "rand", "zeros", "ones", "full", "randint"):
            self.setting.operators[getattr(aten, name).default] = _not_pinned

    def _follow_threads(self) -> None:
        """Enter the modes in threads that are started inside them: a thread begins without
        modes."""
        engine = self._engine
        start = threading.Thread.start

        def started(thread: threading.Thread) -> None:
            if engine.is_on():
                run = thread.run

                def run_inside() -> None:
                    with engine.modes():
                        run()

                thread.run = run_inside  # type: ignore[method-assign]
            start(thread)

        self.replace(threading.Thread, "start", started)

    def _write(self, torch: Any) -> None:
        """Files get shapes, which can be read back in this block."""
        fake = torch_private_fakes.fake_tensor_class()
        say = self.setting.note
        load = torch.load

        def reduced(tensor: Any, protocol: int) -> Any:
            del protocol
            say("Files written in the block have shapes and no values")
            return files.reduce(tensor)

        def loaded(f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
            with files.located(map_location):
                return load(f, map_location, *args, **kwargs)

        self.replace(fake, "__reduce_ex__", reduced)
        self.replace(torch, "load", loaded)
        self.replace(torch.serialization, "load", loaded)
        self.on_exit(files.allow(torch))

    def _keep_random_states(self, torch: Any) -> None:
        """Ignore a fake random state, such as one from a file: it has no values."""
        fake = torch_private_fakes.fake_tensor_class()

        def unless_fake(set_state: Callable[..., Any]) -> Callable[..., Any]:
            def checked(new_state: Any, *args: Any, **kwargs: Any) -> Any:
                if not isinstance(new_state, fake):
                    # Older torch copies the state, and the copy would be fake.
                    with torch_private.outside_modes():
                        set_state(new_state, *args, **kwargs)

            return checked

        for owner in (torch, torch.random, torch.cuda, torch.cuda.random):
            self.replace(owner, "set_rng_state", unless_fake(owner.set_rng_state))

    def _run_as_written(self, torch: Any) -> None:
        """Run compiled functions as written: the memory of generated kernels is unknown."""
        say = self.setting.note
        compile_ = torch.compile

        is_disabled = not hasattr(torch.compiler, "set_stance")

        def compiled(*args: Any, **kwargs: Any) -> Any:
            if say("torch.compile: the code is estimated as it is written, nothing is fused"):
                self._leave_eager(torch)
            if is_disabled:
                kwargs["disable"] = True
            return compile_(*args, **kwargs)

        self.replace(torch, "compile", compiled)

    def _leave_eager(self, torch: Any) -> None:
        if not hasattr(torch.compiler, "set_stance"):
            return
        before = torch_private.compiler_stance()
        torch.compiler.set_stance("force_eager")
        self.on_exit(lambda: torch.compiler.set_stance(before))


def _deep_copy(torch: Any, tensor: Any, memo: dict[int, Any]) -> Any:
    if not tensor.is_leaf:
        raise RuntimeError("Only Tensors created explicitly by the user (graph leaves) support it")
    if id(tensor) in memo:
        return memo[id(tensor)]
    is_parameter = isinstance(tensor, torch.nn.Parameter)
    with torch.no_grad():
        copied = tensor.detach().clone(memory_format=torch.preserve_format)
    if is_parameter:
        copied = torch.nn.Parameter(copied, tensor.requires_grad)
    else:
        copied.requires_grad_(tensor.requires_grad)
        if tensor.grad is not None:
            copied.grad = _deep_copy(torch, tensor.grad, memo)
    memo[id(tensor)] = copied
    return copied


def _refuse_numpy(tensor: Any, force: bool) -> None:
    """Raise torch's errors for tensors that cannot become arrays."""
    if force:
        return
    if tensor.device.type != "cpu":
        raise TypeError(
            f"can't convert {tensor.device} device type tensor to numpy. Use Tensor.cpu() to copy "
            "the tensor to host memory first."
        )
    if tensor.requires_grad:
        raise RuntimeError(
            "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead."
        )


def _nested(shape: tuple[int, ...], value: Any) -> Any:
    if not shape:
        return value
    return [_nested(shape[1:], value) for _ in range(shape[0])]


def _has(data: Any, fake: Any) -> bool:
    if isinstance(data, (list, tuple)):
        return any(_has(one, fake) for one in data)
    return isinstance(data, fake)


def _numbers(data: Any, fake: Any) -> Any:
    if isinstance(data, (list, tuple)):
        return [_numbers(one, fake) for one in data]
    return data.tolist() if isinstance(data, fake) else data


def _not_pinned(func: Any, args: Any, kwargs: Any) -> Any:
    return func(*args, **{name: value for name, value in kwargs.items() if name != "pin_memory"})


def _never(func: Any, args: Any, kwargs: Any) -> bool:
    return False
