"""Private names of torch's fake tensors; `torch_private.py` has the others.

| name | what for | seen in |
|---|---|---|
| `nn.Module._apply` | fake parameters that are moved | 2.4 |
| `FakeTensorMode.in_kernel_invocation` | several threads in one mode | 2.4 to 2.15 |
| `UntypedStorage._fake_device`, `torch._C._swap_tensor_impl` | fakes | 2.4 to 2.15 |
| `torch._subclasses.FakeTensor`, `FakeTensorMode` | fake tensors | 2.4 and 2.11 |
| `fake_tensor.is_fake`, `.unset_fake_temporarily` | the same | 2.4 and 2.11 |
| `fake_tensor.init_gpu_context` | the same without CUDA | 2.11 |
| `fake_tensor.init_cuda_context` | the same | 2.4 |
| `torch._C._set_only_lift_cpu_tensors` | the same without CUDA | 2.4 and 2.11 |
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from floodmark.torch_private import Slot


def moves_fake_parameters(torch: Any) -> bool:
    """Whether `Module.to` gives a fake parameter its new device, not only its new data."""
    return "FakeTensor" in torch.nn.Module._apply.__code__.co_names


def module_apply(torch: Any) -> Slot:
    """The method that `Module.to` and similar methods call for every module."""
    return torch.nn.Module, "_apply"


def fake_tensor_class() -> Any:
    """`FakeTensor`."""
    from torch._subclasses import FakeTensor

    return FakeTensor


def is_fake(tensor: Any) -> bool:
    """Whether it is a fake tensor; False if torch has not imported their module."""
    module = sys.modules.get("torch._subclasses.fake_tensor")
    return module is not None and isinstance(tensor, module.FakeTensor)


def fake_mode_class() -> Any:
    """`FakeTensorMode`."""
    from torch._subclasses import FakeTensorMode

    return FakeTensorMode


def fake_tensor_module() -> Any:
    """The module of fake tensors."""
    from torch._subclasses import fake_tensor

    return fake_tensor


def outside_fake_mode() -> AbstractContextManager[Any]:
    """A block outside the fake tensor mode; other modes stay."""
    outside: AbstractContextManager[Any] = fake_tensor_module().unset_fake_temporarily()
    return outside


def is_fake_storage(storage: Any) -> bool:
    """Whether a storage is that of a fake tensor."""
    return getattr(storage, "_fake_device", None) is not None


def swap_implementations(torch: Any, one: Any, other: Any) -> None:
    """Swap the C++ objects of two tensors."""
    torch._C._swap_tensor_impl(one, other)


def lift_host_tensors_alone(torch: Any) -> Callable[[], None]:
    """Keep constants on the host; returns a function that undoes this."""
    native = torch._C
    if not hasattr(native, "_set_only_lift_cpu_tensors"):
        return lambda: None
    before = native._only_lift_cpu_tensors()
    native._set_only_lift_cpu_tensors(True)
    return lambda: native._set_only_lift_cpu_tensors(before)
