"""The private names of torch that floodmark uses, and every check of torch's version.

`torch_private_distributed.py` has those of `torch.distributed`, `torch_private_fakes.py` those of
fake tensors.

| name | what for | seen in |
|---|---|---|
| `torch.cuda._lazy_call` | a callback once CUDA is initialised | 2.1 to 2.15 |
| `torch.cuda.memory._snapshot` | the blocks that are live before recording | 2.1 to 2.15 |
| `torch._C._cuda_memorySnapshot` | the same without the history | 2.11 to 2.15 |
| `nn.Module.__dict__["_modules"]`, `["_parameters"]`, `["_buffers"]` | names | all |
| `torch.overrides._push_mode`, `_pop_mode` | a mode below all others | 2.4 to 2.15 |
| `torch._C._len_torch_function_stack` | the same | 2.4 to 2.15 |
| `Optimizer.step.hooked` | whether an optimizer was created | 2.4 to 2.15 |
| `_TorchDynamoContext.enter_exit_hooks` | no mode in compiled code | 2.4 to 2.15 |
| `convert_frame.fullgraph_capture`, `aot_compile.AOTCompiledFunction` | the same | 2.11 |
| `threading.Thread._bootstrap_inner` | a mode in new threads | Python 3.10 to 3.14 |
| `DTensor._local_tensor` | the storage of a sharded parameter | 2.4 to 2.15 |
| `torch._C._accelerator_setAllocatorSettings` | settings after the import | 2.10 to 2.15 |
| `torch._C._cuda_cudaCachingAllocator_set_allocator_settings` | the same | 2.4 to 2.9 |
| `torch._C._cuda_isInBadFork` | whether torch refuses CUDA in a fork | 2.4 to 2.15 |
| `torch._C._cuda_getDeviceCount` | whether a phantom is found | 2.4 to 2.15 |
| `torch._inductor.config.compile_threads` | no pool of compilers | 2.4 to 2.15 |
| `torch.utils._triton`, `torch._C._cudart` | a device that appears after the import | 2.4 to 2.15 |
| `torch.autograd._get_sequence_nr` | the module of a backward operator | 2.11 |
| `torch._C._current_autograd_node`, `Node._sequence_nr` | the same | 2.11 |
| `_python_dispatch._disable_current_modes` | no mode for a while | 2.4 to 2.15 |
| `_python_dispatch._get_current_dispatch_mode_stack` | our mode in a thread | 2.4 to 2.15 |
| `OpOverload._handle.redispatch_boxed`, `._schema` | floodmark's kernels | 2.4 and 2.11 |
| `torch._C.DispatchKey`, `._dispatch_keyset_full_after` | the same | 2.4 and 2.11 |
| `torch._C.DisableTorchFunction`, `eval_frame.DisableContext` | the same | 2.4 and 2.11 |
| `torch._C._ForceDispatchKeyGuard` and others of `without_program_state` | the same | 2.11 |
| `torch._C.TensorBase`, `torch._C.StorageBase._cdata` | names | 2.4 and 2.11 |
| `triton.runtime.jit.JITFunction.run` | which tensors a kernel may write | Triton 3.6 |
| `triton.runtime.autotuner.Autotuner._bench` | no autotuning | Triton 3.6 |
| `triton_heuristics.CachingAutotuner`, `select_algorithm` | the same in inductor | 2.11 |
| `Tensor._cdata`, `UntypedStorage._cdata` | where tensors lie in memory | 2.4 to 2.15 |
| `GradScaler._scale`, `._init_scale`, `eval_frame._stance` | what is assumed | 2.4 to 2.15 |
| `torch.utils._python_dispatch.TorchDispatchMode` | a dispatch mode | 2.4 and 2.11 |
| `torch._C._len_torch_dispatch_stack` | whether there is a mode | 2.4 and 2.11 |
| `torch.utils._pytree` | tensors in arguments and results | 2.4 and 2.11 |
| `torch._C._dispatch_get_all_op_names` | operators without shapes | 2.4 and 2.11 |
| `torch._C._dispatch_has_kernel_for_dispatch_key` | the same | 2.4 and 2.11 |
| `torch._C._cuda_memoryStats`, `_cuda_resetPeakMemoryStats` | workspaces | 2.4 and 2.11 |
| `torch._C._cuda_emptyCache` | the same | 2.4 and 2.11 |
| `nn.Module._forward_hooks` and other dictionaries of hooks | a copy without hooks | 2.11 |
| `TransformerEncoderLayer._ff_block`, the decoder's | their MLP | 2.4 and 2.11 |
| `torch.utils.checkpoint._CheckpointFrame` | what a backward pass computes again | 2.4 and 2.11 |
| `torch._C._current_graph_task_id`, `_set_multithreading_enabled` | backward | 2.4 and 2.11 |
| `torch._C._storage_Use_Count`, `Tensor._use_count` | gradients in place | 2.4 and 2.11 |
| `Tensor._indices`, `Tensor._values`, `Tensor._nnz` | sparse tensors | 2.4 and 2.11 |
| `_foreach_supported_types` | optimizers that use foreach operators | 2.4 and 2.11 |
| `RNNBase._flat_weights`, `torch._cudnn_rnn_flatten_weight` | recurrent modules | 2.4 and 2.11 |
| `rnn._VF._pad_packed_sequence` | packed sequences | 2.4 and 2.11 |
| `torch.cuda._lazy_init` | a device in a build without CUDA | 2.4 and 2.11 |
| `_ParameterMeta`, `Tensor._is_param` | which tensors are parameters | 2.4 and 2.11 |
| `Variable._execution_engine` | what runs after a backward pass | 2.4 and 2.11 |
| `nn.Module._compiled_call_impl` | a module that is no longer compiled | 2.4 to 2.15 |
| `OptimizedModule._orig_mod` and others of `WRAPPED_MODULES` | names | 2.4 and 2.11 |

A name to patch is returned as a `Slot`: its owner and the name.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import ModuleType
from typing import Any

#: The owner of an attribute, and the attribute's name.
Slot = tuple[Any, str]

#: Attributes of wrappers that hold the wrapped module. Qualified names leave them out.
WRAPPED_MODULES = {
    "OptimizedModule": "_orig_mod",
    "DistributedDataParallel": "module",
    "DataParallel": "module",
    "FullyShardedDataParallel": "_fsdp_wrapped_module",
    "CheckpointWrapper": "_checkpoint_wrapped_module",
    "OffloadWrapper": "_checkpoint_wrapped_module",
    "FlattenParamsWrapper": "_fpw_module",
}

#: A module of `torch.compile` that is imported together with the compiler.
COMPILER = "torch._dynamo.eval_frame"
#: Functions that trace a program or check guards outside of a compiled call, by their module.
COMPILER_ENTRIES = {
    "torch._dynamo.convert_frame": ("fullgraph_capture",),
    "torch._dynamo.aot_compile": ("aot_compile_fullgraph", "AOTCompiledFunction.__call__"),
}
#: The function of `torch.cuda` that initialises CUDA.
LAZY_INIT = "_lazy_init"


def version(torch: ModuleType) -> tuple[int, int]:
    """torch's major and minor version."""
    major, minor, *_ = str(torch.__version__).split(".")
    return int(major), int(minor)


def version_text(torch: ModuleType) -> str:
    """`torch.__version__`."""
    return str(torch.__version__)


def has_pool_ids(torch: ModuleType) -> bool:
    """Whether the allocator's trace entries carry the pool (2.8 and later)."""
    return version(torch) >= (2, 8)


def when_cuda_is_ready(torch: ModuleType, call: Callable[[], None]) -> None:
    """Call `call` once CUDA is initialised, at once if it is already. Does not initialise it."""
    if torch.version.cuda is None or not hasattr(torch.cuda, "_lazy_call"):
        return
    if hasattr(torch.cuda._tls, "is_initializing"):
        # Inside such a callback torch holds the lock, and the same loop runs what is queued now.
        torch.cuda._queued_calls.append((call, []))
        return
    torch.cuda._lazy_call(call)


def driver_version() -> str:
    """The CUDA version that the driver supports, such as `13.0`; empty without a driver."""
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
        # Only a driver that is loaded already: any query for devices loads it.
        ctypes.CDLL("libcuda.so.1", mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
        return True
    return False


def set_allocator_settings(torch: ModuleType, settings: str) -> None:
    """Set what `PYTORCH_CUDA_ALLOC_CONF` sets, in a process that has imported torch."""
    current = getattr(torch._C, "_accelerator_setAllocatorSettings", None)
    (current or torch._C._cuda_cudaCachingAllocator_set_allocator_settings)(settings)


def is_in_bad_fork(torch: ModuleType) -> bool:
    """Whether this process is a fork in which torch refuses to use CUDA."""
    return bool(torch._C._cuda_isInBadFork())


def device_count(torch: ModuleType) -> int:
    """The number of devices that torch finds, without initialising CUDA."""
    return int(torch._C._cuda_getDeviceCount())


def forget_missing_device(torch: ModuleType) -> None:
    """Clear what torch cached while it had no device."""
    for value in list(vars(sys.modules.get("torch.utils._triton", os)).values()):
        forget = getattr(value, "cache_clear", None)
        if forget is not None:
            forget()
    # torch bound these two to the real library when it was imported.
    runtime = torch._C._cudart
    for name in ("cudaProfilerStart", "cudaProfilerStop"):
        setattr(runtime, name, lambda: runtime.cudaError.success)


def forget_compiled_call(module: Any) -> None:
    """Undo `module.compile()`."""
    module._compiled_call_impl = None


def compile_in_this_process() -> None:
    """Keep inductor from starting processes; before its import, through the environment."""
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

    Checked with tensors without elements, which allocate nothing."""

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
    """A block outside all modes: tensors that it creates are real."""
    from torch.utils import _python_dispatch

    outside: AbstractContextManager[None] = _python_dispatch._disable_current_modes()
    return outside


def has_made_optimizer(torch: Any) -> bool:
    """Whether the program has created an optimizer: the first one of a class wraps its `step`."""
    found: list[Any] = [torch.optim.Optimizer]
    for kind in found:
        found.extend(type.__subclasses__(kind))
    return any(getattr(kind.step, "hooked", False) for kind in found)


def children(module: object) -> dict[str, object]:
    """A module's submodules, read without running the module's own code."""
    return dict(vars(module).get("_modules") or {})


def parameters(module: object) -> dict[str, Any]:
    """A module's own parameters."""
    return dict(vars(module).get("_parameters") or {})


def parts_for_names(torch: Any) -> dict[str, Any]:
    """The C functions and classes with which the recorder reads modules, tensors and optimizers.

    A descriptor's own `__get__` reads torch's attribute, whatever a subclass has in its place.
    """
    base = torch._C.TensorBase
    attributes = ("grad", "device", "shape", "dtype", "requires_grad", "is_leaf")
    return {
        **{name: vars(base)[name].__get__ for name in attributes},
        "tensor": torch.Tensor,
        "parameter": torch.nn.Parameter,
        "tensor_base": base,
        "optimizer": torch.optim.Optimizer,
        "data_ptr": base.data_ptr,
        "storage": base.untyped_storage,
        "storage_offset": base.storage_offset,
        "element_size": base.element_size,
        "storage_id": torch._C.StorageBase._cdata.__get__,
        "without_functions": torch._C.DisableTorchFunction,
        "attribute": object.__getattribute__,
        "subclasses": type.__subclasses__,
        # `ctypes.cast` calls it: the same in Python 3.10 to 3.14.
        "cast": ctypes._cast,  # type: ignore[attr-defined]
        "py_object": ctypes.py_object,
        "all_objects": gc.get_objects,
        "current_frames": sys._current_frames,
        "imported": sys.modules,
        "wrapped_modules": WRAPPED_MODULES,
    }


def addresses_of(tensor: Any, other: Any) -> tuple[int, int, int, int, int]:
    """The addresses of a tensor's C++ object, its storage's C++ object and its data; its size in
    bytes; the address of another storage's C++ object."""
    storage = tensor.untyped_storage()
    return tensor._cdata, storage._cdata, storage.data_ptr(), storage.nbytes(), other._cdata


def local_part(tensor: Any) -> Any:
    """The plain tensor with a tensor's storage in this process: the local part of a DTensor."""
    return getattr(tensor, "_local_tensor", tensor)


def parts(tensor: Any) -> list[Any]:
    """The tensors of which a tensor consists: itself, or those inside a wrapper subclass."""
    if hasattr(tensor, "__tensor_flatten__"):
        names, _ = tensor.__tensor_flatten__()
        return [part for name in names for part in parts(getattr(tensor, name))]
    return [local_part(tensor)]


def is_plain_class(torch: Any, kind: type) -> bool:
    """Whether functions of torch treat tensors of a class like plain ones.

    A `__torch_function__` that calls the one of its base class adds to a call and does not change
    it.
    """
    plain = torch.Tensor
    if not issubclass(kind, plain):
        return False
    if kind.__torch_dispatch__ is not plain.__torch_dispatch__:  # type: ignore[attr-defined]
        return False
    for base in kind.__mro__:
        function = vars(base).get("__torch_function__")
        if function is None:
            continue
        if base is plain or function is torch._C._disabled_torch_function_impl:
            return True
        code = getattr(getattr(function, "__func__", function), "__code__", None)
        if code is None or not {"super", "__torch_function__"} <= set(code.co_names):
            return False
    return False


def is_sharded(tensor: Any) -> bool:
    """Whether a tensor has only a part of its data in this process, like a DTensor."""
    return hasattr(tensor, "_local_tensor")


def storage_id(storage: Any) -> int:
    """A number that is unique among live storages, also for a storage without data."""
    return int(storage._cdata)


def sparse_parts(tensor: Any) -> tuple[Any, Any]:
    """The indices and the values of a sparse tensor, coalesced or not."""
    return tensor._indices(), tensor._values()


def sparse_count(tensor: Any) -> int:
    """The number of elements or blocks that a sparse tensor stores."""
    return int(tensor._nnz())


def function_modes(torch: ModuleType) -> list[Any]:
    """Pop all function modes of this thread; the last one returned is the outermost."""
    from torch.overrides import _pop_mode

    return [_pop_mode() for _ in range(torch._C._len_torch_function_stack())]


def set_function_modes(modes: list[Any]) -> None:
    """Push function modes; the last one is the outermost."""
    from torch.overrides import _push_mode

    for mode in reversed(modes):
        _push_mode(mode)


def implementations(torch: Any) -> Any:
    """A library for kernels of torch's own operators."""
    return torch.library.Library("aten", "IMPL")


def operator(torch: Any, name: str) -> Any:
    """An operator of torch by its name, such as `eq.Scalar`; None if torch has none."""
    packet, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, packet, None), overload or "default", None)


def redispatch(operator: Any) -> Any:
    """A function that calls an operator's kernel for a set of dispatch keys."""
    return operator._handle.redispatch_boxed


def tensor_positions(operator: Any) -> list[int]:
    """The positions of an operator's arguments that are tensors."""
    arguments = enumerate(operator._schema.arguments)
    return [at for at, argument in arguments if str(argument.type) == "Tensor"]


def keys_below_autograd(torch: Any) -> tuple[Any, list[Any]]:
    """The dispatch keys below `BackendSelect`, and those of CUDA tensors."""
    keys = torch._C.DispatchKey
    below = torch._C._dispatch_keyset_full_after(keys.BackendSelect)
    return below, [keys.CUDA, keys.SparseCUDA]


def without_function_modes(torch: Any) -> AbstractContextManager[None]:
    """A block in which functions of torch bypass function modes."""
    outside: AbstractContextManager[None] = torch._C.DisableTorchFunction()
    return outside


def without_program_state(torch: Any) -> tuple[Any, Any, tuple[Any, Any], Any, Any, Any]:
    """Guards that keep floodmark's calls of torch independent of the program's modes and state.

    In the order of `_core.OwnWork`. Call it before the program runs: it reads a new thread's
    dispatch keys, which it keeps without those of autograd and Python."""
    c = torch._C
    with c._AutoDispatchBelowADInplaceOrView(), c._DisableTorchDispatch():
        without = c._dispatch_tls_local_exclude_set()
    keys = (c._dispatch_tls_local_include_set(), without)
    profiled = c._autograd._enable_record_function
    tracers = (c._get_tracing_state, c._set_tracing_state)
    return c.DisableTorchFunction, c._ForceDispatchKeyGuard, keys, profiled, *tracers


def transforms(torch: Any) -> tuple[Any, Any]:
    """Two functions: the running transform or None; whether a tensor belongs to a transform."""
    functorch = torch._C._functorch
    return functorch.peek_interpreter_stack, functorch.is_functorch_wrapped_tensor


def without_transforms(torch: Any, tensor: Any) -> Any:
    """The program's tensor inside the wrappers of transforms."""
    functorch = torch._C._functorch
    while functorch.is_functorch_wrapped_tensor(tensor):
        tensor = functorch.get_unwrapped(tensor)
    return tensor


def sequence_number(torch: ModuleType) -> int | None:
    """The sequence number of this thread's next autograd node; None if torch cannot return it."""
    ask = getattr(torch.autograd, "_get_sequence_nr", None)
    return None if ask is None else int(ask())


def backward_node(torch: ModuleType) -> Any:
    """The autograd node that this thread runs; None outside a backward pass."""
    ask = getattr(torch._C, "_current_autograd_node", None)
    return None if ask is None else ask()


def sequence_number_of(node: Any) -> int | None:
    """The sequence number of an autograd node."""
    ask = getattr(node, "_sequence_nr", None)
    return None if ask is None else int(ask())


# Backward passes.


def graph_task(torch: Any) -> Callable[[], int]:
    """A function that returns the id of the backward pass on this thread, or -1."""
    ask: Callable[[], int] = torch._C._current_graph_task_id
    return ask


def run_backward_on_this_thread(torch: Any) -> Callable[[], None]:
    """Run backward passes on the calling thread; returns a function that undoes this."""
    before = torch.autograd.is_multithreading_enabled()
    torch._C._set_multithreading_enabled(False)
    return lambda: torch._C._set_multithreading_enabled(before)


def checkpoint_frame(checkpointing: Any) -> Any:
    """The class with the function that a checkpoint computes again; None if torch has none."""
    return getattr(checkpointing, "_CheckpointFrame", None)


def call_after_backward(torch: Any, call: Callable[[], None]) -> None:
    """Call `call` at the end of the running backward pass."""
    torch.autograd.Variable._execution_engine.queue_callback(call)


def storage_users(torch: Any, storage: Any) -> int:
    """The reference count of a storage."""
    return int(torch._C._storage_Use_Count(storage._cdata))


def references_of(tensor: Any) -> int:
    """The reference count of a tensor's C++ object, from C++ and Python."""
    return int(tensor._use_count())


# Modes, operators and trees of arguments.


def dispatch_mode_class() -> Any:
    """`TorchDispatchMode`."""
    from torch.utils._python_dispatch import TorchDispatchMode

    return TorchDispatchMode


def dispatch_modes() -> list[Any]:
    """The dispatch modes of this thread, the outermost first."""
    from torch.utils import _python_dispatch

    return list(_python_dispatch._get_current_dispatch_mode_stack())


def dispatch_depth() -> Callable[[], int]:
    """A function that returns the number of dispatch modes of this thread."""
    import torch

    depth: Callable[[], int] = torch._C._len_torch_dispatch_stack
    return depth


def trees() -> Any:
    """`tree_map` and `tree_leaves`, for tensors in lists, tuples and dictionaries."""
    from torch.utils import _pytree

    return _pytree


def schema_of(operator: Any) -> Any:
    """The schema of an operator; None for other functions."""
    return getattr(operator, "_schema", None)


def operator_names(torch: Any) -> list[str]:
    """The names of all operators, such as `aten::add.Tensor`."""
    return list(torch._C._dispatch_get_all_op_names())


def kernel_test(torch: Any) -> Callable[[str, str], bool]:
    """A function that returns whether an operator has a kernel for a dispatch key."""
    has_kernel: Callable[[str, str], bool] = torch._C._dispatch_has_kernel_for_dispatch_key
    return has_kernel


def reset_peak(torch: Any, device: int) -> None:
    """Reset the allocator's peaks."""
    torch._C._cuda_resetPeakMemoryStats(device)


def allocated_bytes(torch: Any, device: int) -> Any:
    """The allocated bytes of a device: `current`, `peak` and others."""
    return torch._C._cuda_memoryStats(device)["allocated_bytes"]["all"]


def empty_cache(torch: Any) -> None:
    """`torch.cuda.empty_cache`, also while that function is replaced."""
    torch._C._cuda_emptyCache()


def compiler_stance() -> Any:
    """The stance that `torch.compiler.set_stance` has set."""
    from torch._dynamo import eval_frame

    return eval_frame._stance.stance


def compiler_context(eval_frame: Any) -> Any:
    """The class of the context around a call of compiled code."""
    return eval_frame._TorchDynamoContext


def inductor_autotuner(heuristics: Any) -> Slot:
    """The method that compiles the configurations of an inductor kernel: `configs`,
    `compile_results`."""
    return heuristics.CachingAutotuner, "_precompile_worker"


def library_kernel(selection: Any, choices: list[Any]) -> list[Any]:
    """The first library kernel among the choices that inductor would compare, or the first
    choice."""
    from_libraries = [c for c in choices if isinstance(c, selection.ExternKernelCaller)]
    return (from_libraries or choices)[:1]


def foreach_types() -> list[list[Any]]:
    """The lists of tensor types for which optimizers and clipping use foreach operators."""
    from torch.optim import optimizer
    from torch.utils import _foreach_utils

    lists = [getattr(of, "_foreach_supported_types", None) for of in (optimizer, _foreach_utils)]
    return list({id(known): known for known in lists if isinstance(known, list)}.values())


def first_scale(scaler: Any) -> float | None:
    """The first scale of a `GradScaler`; None before its first use."""
    return None if scaler._scale is None else float(scaler._init_scale)


# Modules and parameters.


def flat_weights(module: Any) -> list[Any]:
    """The weights of a recurrent module, in the order of cuDNN."""
    weights: list[Any] = module._flat_weights
    return weights


def flatten_recurrent_weights(torch: Any, *arguments: Any) -> Any:
    """Copy the weights of a recurrent module into one buffer."""
    return torch._cudnn_rnn_flatten_weight(*arguments)


def pad_packed_sequence() -> Slot:
    """The function behind `torch.nn.utils.rnn.pad_packed_sequence`."""
    from torch.nn.utils import rnn

    return rnn._VF, "_pad_packed_sequence"


def as_parameter(tensor: Any) -> Any:
    """The tensor, marked as a parameter although its class is not `Parameter`."""
    tensor._is_param = True
    return tensor


def parameter_metaclass() -> Any:
    """The metaclass of `Parameter`, which implements `isinstance`."""
    from torch.nn import parameter

    module: Any = parameter
    return module._ParameterMeta


def negative_view(torch: Any, tensor: Any) -> Any:
    """A view of the tensor with torch's negative bit."""
    return torch._neg_view(tensor)
