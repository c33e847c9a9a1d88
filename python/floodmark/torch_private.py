"""Everything private of torch that we touch, and every question about its version.

| name | what for | seen in |
|---|---|---|
| `torch.cuda._lazy_call` | to be called when CUDA is initialised, or at once | 2.1 to 2.15 |
| `torch.cuda.memory._snapshot` | the blocks that are there before recording | 2.1 to 2.15 |
| `torch._C._cuda_memorySnapshot` | the same without the history | 2.11 to 2.15 |
| `nn.Module.__dict__["_modules"]`, `["_parameters"]`, `["_buffers"]` | names | all |
| `torch.overrides._push_mode`, `_pop_mode` | a mode below all others | 2.4 to 2.15 |
| `torch._C._len_torch_function_stack` | the same | 2.4 to 2.15 |
| `Optimizer.step.hooked` | whether an optimizer was made | 2.4 to 2.15 |
| `_TorchDynamoContext.enter_exit_hooks` | no mode in compiled code | 2.4 to 2.15 |
| `threading.Thread._bootstrap_inner` | a mode in new threads | Python 3.10 to 3.14 |
| `distributed_c10d._new_process_group_helper`, `._world` | a rank of a world | 2.4 to 2.15 |
| `distributed_c10d._process_group_color`, `._rank_not_in_group` | the same | 2.4 to 2.15 |
| `distributed_c10d._create_process_group_wrapper` | the same | 2.4 to 2.15 |
| `ProcessGroup._wait_for_pending_works`, `FakeProcessGroup` | the same | 2.4 to 2.15 |
| `DTensor._local_tensor` | the storage of a sharded parameter | 2.4 to 2.15 |
| `torch._C._cuda_getDeviceCount` | whether a phantom is found | 2.4 to 2.15 |
| `torch._inductor.config.compile_threads` | no pool of compilers | 2.4 to 2.15 |
| `torch.utils._triton`, `torch._C._cudart` | a device that came later | 2.4 to 2.15 |
| `torch.autograd._get_sequence_nr` | the module of a backward operator | 2.11 |
| `torch._C._current_autograd_node`, `Node._sequence_nr` | the same | 2.11 |
| `nn.Module._apply` | fake parameters that are moved | 2.4 |
| `_python_dispatch._disable_current_modes` | outside all modes | 2.4 to 2.15 |
| `_python_dispatch._get_current_dispatch_mode_stack` | whether a thread has ours | 2.4 to 2.15 |
| `FakeTensorMode.in_kernel_invocation` | several threads in one mode | 2.4 to 2.15 |
| `UntypedStorage._fake_device`, `torch._C._swap_tensor_impl` | fakes | 2.4 to 2.15 |
| `OpOverload._handle.redispatch_boxed`, `._schema` | kernels of ours | 2.4 and 2.11 |
| `torch._C.DispatchKey`, `._dispatch_keyset_full_after` | the same | 2.4 and 2.11 |
| `torch._C.DisableTorchFunction`, `eval_frame.DisableContext` | the same | 2.4 and 2.11 |
| `triton.runtime.jit.JITFunction.run` | what a kernel may have written | Triton 3.6 |
| `Tensor._cdata`, `UntypedStorage._cdata` | where tensors lie in memory | 2.4 to 2.15 |
| `GradScaler._init_scale`, `eval_frame._stance` | what is assumed | 2.4 to 2.15 |
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import ModuleType
from typing import Any


def version(torch: ModuleType) -> tuple[int, int]:
    """torch's version, as far as we ask for it."""
    major, minor, *_ = str(torch.__version__).split(".")
    return int(major), int(minor)


def has_pool_ids(torch: ModuleType) -> bool:
    """Whether the allocator's trace entries carry the pool (2.8 and later)."""
    return version(torch) >= (2, 8)


def moves_fake_parameters(torch: Any) -> bool:
    """Whether `Module.to` gives a fake parameter its new device, not only its new data."""
    return "FakeTensor" in torch.nn.Module._apply.__code__.co_names


def when_cuda_is_ready(torch: ModuleType, call: Callable[[], None]) -> None:
    """Call when CUDA is initialised: at once if it is. Does not initialise it."""
    if torch.version.cuda is None or not hasattr(torch.cuda, "_lazy_call"):
        return
    if hasattr(torch.cuda._tls, "is_initializing"):
        # Inside of such a call the lock is held, and what is queued now is called by the same loop.
        torch.cuda._queued_calls.append((call, []))
        return
    torch.cuda._lazy_call(call)


def driver_version() -> str:
    """The CUDA version that the driver supports, as `13.0`; empty when it cannot be asked."""
    try:
        number = ctypes.c_int()
        ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(number))
    except (OSError, AttributeError):
        return ""
    return f"{number.value // 1000}.{number.value % 1000 // 10}"


def is_cuda_used(torch: ModuleType) -> bool:
    """Whether this process has begun to use CUDA, through torch or otherwise."""
    if torch.cuda.is_initialized():
        return True
    with contextlib.suppress(OSError):
        # Only what is loaded already: the driver is, as soon as somebody looks for a device.
        ctypes.CDLL("libcuda.so.1", mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
        return True
    return False


def device_count(torch: ModuleType) -> int:
    """How many devices torch finds, without initialising CUDA."""
    return int(torch._C._cuda_getDeviceCount())


def forget_that_there_was_none(torch: ModuleType) -> None:
    """A device has come: undo what torch's Python found when there was none."""
    for value in list(vars(sys.modules.get("torch.utils._triton", os)).values()):
        forget = getattr(value, "cache_clear", None)
        if forget is not None:
            forget()
    # These two were taken for good when torch was imported, and ask the real library.
    runtime = torch._C._cudart
    for name in ("cudaProfilerStart", "cudaProfilerStop"):
        setattr(runtime, name, lambda: runtime.cudaError.success)


def compile_in_this_process() -> None:
    """Have inductor start no processes; where it is not imported yet, its environment says so."""
    config: Any = sys.modules.get("torch._inductor.config")
    if config is not None:
        config.compile_threads = 1


def allocator_segments(torch: ModuleType) -> list[dict[str, Any]]:
    """The caching allocator's segments with their blocks, without copying the history."""
    if version(torch) >= (2, 11):
        with contextlib.suppress(Exception):
            return list(torch._C._cuda_memorySnapshot((0, 0, False))["segments"])
    return list(torch.cuda.memory._snapshot()["segments"])


def runs_backward_on(torch: Any, device: str) -> bool:
    """Whether autograd has a queue for the device: it counts devices at its first backward pass.

    Tensors without elements tell, and take no memory."""

    class Nothing(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(_context: Any, value: Any) -> Any:
            return value.new_empty(0)

        @staticmethod
        def backward(_context: Any, gradient: Any) -> Any:
            return gradient

    start = torch.empty(0, device=device, requires_grad=True)
    with torch.enable_grad():
        end = Nothing.apply(start)
    try:
        torch.autograd.backward(end, torch.empty(0, device=device))
    except RuntimeError as error:
        return "device_ready_queues_" not in str(error)
    return True


def outside_modes() -> AbstractContextManager[None]:
    """Outside all modes: what is made here is real and has values."""
    from torch.utils import _python_dispatch

    outside: AbstractContextManager[None] = _python_dispatch._disable_current_modes()
    return outside


def tensor_types(torch: ModuleType) -> list[type]:
    """`torch.Tensor` and every class below it."""
    found: list[type] = [torch.Tensor]
    for kind in found:
        found.extend(type.__subclasses__(kind))
    return found


def has_made_optimizer(torch: Any) -> bool:
    """Whether the program has made an optimizer: the first one of a class wraps its `step`."""
    found: list[Any] = [torch.optim.Optimizer]
    for kind in found:
        found.extend(type.__subclasses__(kind))
    return any(getattr(kind.step, "hooked", False) for kind in found)


def children(module: object) -> dict[str, object]:
    """A module's submodules, without running a line of its own code."""
    return dict(vars(module).get("_modules") or {})


def parameters(module: object) -> dict[str, Any]:
    """A module's own parameters."""
    return dict(vars(module).get("_parameters") or {})


def buffers(module: object) -> dict[str, Any]:
    """A module's own buffers."""
    return dict(vars(module).get("_buffers") or {})


def addresses_of(tensor: Any, other: Any) -> tuple[int, int, int, int, int]:
    """The addresses of a tensor's C++ object, of its storage's and of its data, and its bytes; the
    address of another storage's C++ object."""
    storage = tensor.untyped_storage()
    return tensor._cdata, storage._cdata, storage.data_ptr(), storage.nbytes(), other._cdata


def local_part(tensor: Any) -> Any:
    """The plain tensor that holds a tensor's storage in this process."""
    return getattr(tensor, "_local_tensor", tensor)


def function_modes(torch: ModuleType) -> list[Any]:
    """Take all modes of this thread off; the outermost is the last."""
    from torch.overrides import _pop_mode

    return [_pop_mode() for _ in range(torch._C._len_torch_function_stack())]


def set_function_modes(modes: list[Any]) -> None:
    """Put modes on, the outermost of which is the last."""
    from torch.overrides import _push_mode

    for mode in reversed(modes):
        _push_mode(mode)


def implementations(torch: Any) -> Any:
    """A library for kernels of torch's own operators."""
    return torch.library.Library("aten", "IMPL")


def operator(torch: Any, name: str) -> Any:
    """An operator of torch by its name, as `eq.Scalar`; None where torch has none."""
    packet, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, packet, None), overload or "default", None)


def redispatch(operator: Any) -> Any:
    """What calls the kernel of an operator for a set of keys."""
    return operator._handle.redispatch_boxed


def tensor_positions(operator: Any) -> list[int]:
    """Which arguments of an operator are tensors."""
    arguments = enumerate(operator._schema.arguments)
    return [at for at, argument in arguments if str(argument.type) == "Tensor"]


def keys_below_autograd(torch: Any) -> tuple[Any, list[Any]]:
    """The keys below `BackendSelect`, and those of CUDA's tensors."""
    keys = torch._C.DispatchKey
    below = torch._C._dispatch_keyset_full_after(keys.BackendSelect)
    return below, [keys.CUDA, keys.SparseCUDA]


def without_function_modes(torch: Any) -> AbstractContextManager[None]:
    """Functions of torch that are called here pass no mode."""
    outside: AbstractContextManager[None] = torch._C.DisableTorchFunction()
    return outside


def transforms(torch: Any) -> tuple[Any, Any]:
    """What gives the transform that runs, or None, and whether a tensor belongs to one."""
    functorch = torch._C._functorch
    return functorch.peek_interpreter_stack, functorch.is_functorch_wrapped_tensor


def without_transforms(torch: Any, tensor: Any) -> Any:
    """The tensor of the program below those of transforms."""
    functorch = torch._C._functorch
    while functorch.is_functorch_wrapped_tensor(tensor):
        tensor = functorch.get_unwrapped(tensor)
    return tensor


def sequence_number(torch: ModuleType) -> int | None:
    """The number that the next autograd node of this thread gets; None where torch has no name."""
    ask = getattr(torch.autograd, "_get_sequence_nr", None)
    return None if ask is None else int(ask())


def backward_node(torch: ModuleType) -> Any:
    """The autograd node that this thread runs; None outside of a backward pass."""
    ask = getattr(torch._C, "_current_autograd_node", None)
    return None if ask is None else ask()


def sequence_number_of(node: Any) -> int | None:
    """The number that an autograd node got when it was made."""
    ask = getattr(node, "_sequence_nr", None)
    return None if ask is None else int(ask())
