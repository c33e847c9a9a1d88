"""Replaces the C++ part of `DistributedDataParallel` for fake tensors.

torch's `Reducer` reads memory that fake tensors do not have. This one has the same buckets in the
same order at the same times, and calls only the fake group. Sees: parameters and their gradients.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

from floodmark import torch_private, torch_private_distributed
from floodmark.world.ddp_buckets import Bucket
from floodmark.world.storages import share_storage

#: torch's names of its two built-in hooks.
_COMPRESSED = "FP16_COMPRESS"

#: torch's size limits of a bucket, and of the first one, in bytes.
_CAP_BYTES, _FIRST_CAP_BYTES = 25 << 20, 1 << 20


class Reducer:
    """torch's `Reducer` without values."""

    def __init__(
        self,
        params: list[Any],
        bucket_indices: list[list[int]],
        per_bucket_size_limits: list[int],
        process_group: Any,
        expect_sparse_gradients: list[bool] | None = None,
        bucket_bytes_cap: int = _CAP_BYTES,
        find_unused_parameters: bool = False,
        gradient_as_bucket_view: bool = False,
        param_to_name_mapping: dict[int, str] | None = None,
        first_bucket_bytes_cap: int = _FIRST_CAP_BYTES,
        skip_all_reduce_unused_params: bool = False,
        use_python_reducer: bool = False,
        bucket_bytes_cap_list: Iterable[int] = (),
        batched_grad_copy: bool = False,
        lazy_bucket_allocation: bool = False,
    ) -> None:
        import torch

        self._torch = torch
        self._group = process_group
        self._parameters = list(params)
        self._is_sparse = list(expect_sparse_gradients or [False] * len(params))
        self._limits = list(bucket_bytes_cap_list) or [first_bucket_bytes_cap, bucket_bytes_cap]
        self._finds_unused = find_unused_parameters
        self._keeps_views = gradient_as_bucket_view
        self._is_lazy = lazy_bucket_allocation
        self._is_finished_by_hand = False
        self._is_static = False
        self._has_rebuilt = False
        self._dtype: Any = None
        self._hook: Callable[[Bucket], Any] | None = None
        self._buckets: list[Bucket] = []
        self._slots: dict[int, tuple[Bucket, int]] = {}
        self._expects_hooks = False
        self._iterations = 0
        self._ready_buckets = 0
        self._ready_order: list[int] = []
        self._times_ready: dict[int, int] = {}
        self._times_left: dict[int, int] = {}
        self._used: set[int] = set()
        self._unused: list[int] = []
        self._has_marked_unused = False
        self._used_map: Any = None
        self._make_buckets(bucket_indices)
        self._nodes, self._handles = self._watch() if not use_python_reducer else ([], [])
        if find_unused_parameters:
            self._make_used_map()

    # Buckets.

    def _make_buckets(self, bucket_indices: list[list[int]]) -> None:
        self._buckets.clear()
        self._slots.clear()
        for indices in bucket_indices:
            if any(self._is_sparse[index] for index in indices):
                continue
            parameters = [self._parameters[index] for index in indices]
            bucket = Bucket(self._torch, parameters, list(indices), self._dtype)
            bucket.number = len(self._buckets)
            if not self._is_lazy:
                bucket.allocate()
            self._buckets.append(bucket)
            for at, index in enumerate(indices):
                self._slots[index] = (bucket, at)
                if self._keeps_views and not self._is_lazy:
                    self._move_gradient(parameters[at], bucket.views[at])
        if self._buckets:
            self._buckets[-1].is_last_ = True

    def _move_gradient(self, parameter: Any, view: Any) -> None:
        """Move an existing gradient into the new bucket."""
        if parameter.grad is not None and not share_storage(parameter.grad, view):
            view.copy_(parameter.grad)
            parameter.grad = view

    def _rebuild_buckets(self) -> bool:
        """Rebuild the buckets in the order of the first backward pass."""
        if not self._should_rebuild() or not self._ready_order:
            return False
        compute = torch_private_distributed.bucket_assignment(self._torch)
        order, self._ready_order = self._ready_order, []
        indices, _ = compute(
            [self._parameters[index] for index in order], self._limits, self._is_sparse, order
        )
        self._has_rebuilt = True
        with self._torch.no_grad():
            self._make_buckets(indices)
        return True

    def _should_rebuild(self) -> bool:
        return (self._is_static or not self._finds_unused) and not self._has_rebuilt

    def _make_used_map(self) -> None:
        """Allocate the map of used parameters, which torch reduces over the ranks."""
        first = self._parameters[0]
        count = len(self._parameters)
        self._used_map = self._torch.empty(count, dtype=self._torch.int32, device=first.device)

    # A step.

    def prepare_for_forward(self) -> None:
        """Called at the begin of a forward pass."""
        self._iterations += 1

    def prepare_for_backward(self, outputs: list[Any]) -> None:
        """Called after a forward pass whose gradients will be reduced."""
        self._expects_hooks = True
        self._ready_buckets = 0
        self._has_marked_unused = False
        self._times_left = dict(self._times_ready)
        for bucket in self._buckets:
            bucket.pending = len(bucket.indices)
        if self._finds_unused and not self._is_static:
            reached = _reached(outputs)
            count = len(self._parameters)
            self._unused = [i for i in range(count) if id(self._parameters[i]) not in reached]

    def _watch(self) -> tuple[list[Any], list[Any]]:
        """Hook every gradient; the hooks have only a weak reference to the reducer."""
        me = weakref.ref(self)

        def hook(index: int) -> Callable[..., None]:
            def gradient_is_ready(*_: Any) -> None:
                reducer = me()
                if reducer is not None:
                    reducer._autograd_hook(index)

            return gradient_is_ready

        nodes, handles = [], []
        for index, parameter in enumerate(self._parameters):
            with self._torch.enable_grad():
                node = parameter.expand_as(parameter).grad_fn.next_functions[0][0]
            nodes.append(node)
            handles.append(node.register_hook(hook(index)))
        return nodes, handles

    def _autograd_hook(self, index: int) -> None:
        if not self._expects_hooks:
            return
        self._used.add(index)
        if self._is_static and self._iterations == 1:
            self._times_ready[index] = self._times_ready.get(index, 0) + 1
            return
        if not self._has_marked_unused:
            self._has_marked_unused = True
            for unused in self._unused:
                self._mark_ready(unused)
        if self._is_static:
            self._times_left[index] = self._times_left.get(index, 1) - 1
            if self._times_left[index]:
                return
        self._mark_ready(index)

    def _mark_ready(self, index: int) -> None:
        if self._should_rebuild():
            self._ready_order.append(index)
        if index not in self._slots:
            # A sparse gradient has no bucket and is reduced in place.
            return
        self._fill(index)
        bucket, _ = self._slots[index]
        bucket.pending -= 1
        if bucket.pending:
            return
        self._ready_buckets += 1
        self._reduce(bucket)
        if self._ready_buckets == len(self._buckets):
            if self._finds_unused and not self._is_static:
                self._reduce_used_map()
            if not self._is_finished_by_hand:
                torch_private.call_after_backward(self._torch, self._finish)

    def _fill(self, index: int) -> None:
        """Copy a gradient into its bucket; with views, the gradient becomes a view of the
        bucket."""
        bucket, at = self._slots[index]
        bucket.allocate()
        parameter, view = self._parameters[index], bucket.views[at]
        gradient = parameter.grad
        with self._torch.no_grad():
            if gradient is None:
                view.zero_()
            elif share_storage(gradient, view):
                if self._hook is None:
                    view.div_(self._group.size())
            else:
                if self._hook is None:
                    self._torch.mul(gradient, 1.0 / self._group.size(), out=view)
                else:
                    view.copy_(gradient)
                if self._keeps_views:
                    parameter.grad = view

    def _reduce(self, bucket: Bucket) -> None:
        with self._torch.no_grad():
            if self._hook is not None:
                bucket.result = self._hook(bucket)
            else:
                self._group.allreduce([bucket.buffer_])

    def _reduce_used_map(self) -> None:
        self._group.allreduce([self._used_map])

    def _delay_all_reduce(self) -> None:
        """After the first pass of a static graph: reduce all buckets at the end."""
        self._reduce_used_map()
        count = len(self._parameters)
        self._unused = [i for i in range(count) if not self._times_ready.get(i)]
        for index in self._slots:
            self._fill(index)
        for bucket in self._buckets:
            self._reduce(bucket)
        self._finish()

    def _finish(self) -> None:
        """After all buckets are reduced: set the gradients."""
        self._expects_hooks = False
        may_be_unused = (self._finds_unused and not self._is_static) or (
            self._is_static and self._iterations == 1
        )
        with self._torch.no_grad():
            for bucket in self._buckets:
                self._set_gradients(bucket, may_be_unused)
                if self._is_lazy:
                    bucket.release()
        self._used.clear()

    def _set_gradients(self, bucket: Bucket, may_be_unused: bool) -> None:
        views = bucket.views
        if bucket.result is not None:
            result, bucket.result = _value(bucket.result), None
            if result is not bucket.buffer_ and not share_storage(result, bucket.buffer_):
                views = bucket.views_of(result)
        for at, index in enumerate(bucket.indices):
            parameter = self._parameters[index]
            if may_be_unused and index not in self._used:
                continue
            if self._keeps_views:
                if views is not bucket.views:
                    bucket.views[at].copy_(views[at])
                if parameter.grad is None:
                    parameter.grad = bucket.views[at]
            elif parameter.grad is None:
                parameter.grad = views[at].clone()
            else:
                parameter.grad.copy_(views[at])

    # Methods that `DistributedDataParallel` calls.

    def _set_static_graph(self) -> None:
        self._is_static = True
        self._make_used_map()

    def _ddp_graph_static(self) -> bool:
        return self._is_static

    def _set_mixed_precision_param_dtype(self, dtype: Any) -> None:
        self._dtype = dtype
        for bucket in self._buckets:
            bucket.convert(dtype)

    def set_hook(self, hook: Callable[[Bucket], Any]) -> None:
        """Set the user's function that reduces a bucket."""
        self._hook = hook

    def _set_manual_finalization_required(self, is_required: bool) -> None:
        self._is_finished_by_hand = is_required

    def _should_finalize_after_backward(self) -> bool:
        return self._should_rebuild()

    def _finalize_backward_manual(self) -> None:
        self._finish()

    def _remove_autograd_hooks(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def _update_process_group(self, group: Any) -> None:
        self._group = group

    def _reset_state(self) -> None:
        self._expects_hooks = False
        self._has_rebuilt = False
        self._ready_order.clear()

    def _get_local_used_map(self) -> Any:
        if self._used_map is None:
            self._make_used_map()
        return self._used_map

    def _get_zeros_like_grad_buckets(self) -> list[Bucket]:
        zeros = []
        for bucket in self._buckets:
            one = Bucket(self._torch, bucket.parameters_, bucket.indices, self._dtype)
            one.allocate()
            one.number, one.is_last_ = bucket.number, bucket.is_last_
            zeros.append(one)
        return zeros

    def _run_comm_hook(self, bucket: Bucket) -> Any:
        if self._hook is not None:
            return self._hook(bucket)
        return self._group.allreduce([bucket.buffer_])

    def _run_allreduce_hook(self, bucket: Bucket) -> Any:
        self._group.allreduce([bucket.buffer_])
        future: Any = self._torch.futures.Future()
        future.set_result(bucket.buffer_)
        return future

    def _push_all_rebuilt_params(self) -> None:
        if self._should_rebuild():
            self._ready_order = list(range(len(self._parameters)))

    def get_backward_stats(self) -> list[int]:
        """The times at which gradients were ready; not measured."""
        return [0] * len(self._parameters)

    def _nothing(self, *_: Any, **__: Any) -> None:
        """Do nothing: needs other ranks, a clock or a log."""

    set_logger = _nothing
    _set_forward_pass_work_handle = _nothing
    _set_ddp_runtime_logging_sample_rate = _nothing
    _set_sparse_metadata = _nothing
    _set_optimizer_in_backward = _nothing
    _install_post_backward_futures = _nothing
    _check_reducer_finalized = _nothing


class Logger:
    """Replaces torch's `Logger`, which needs torch's `Reducer`."""

    def __init__(self, _reducer: Reducer) -> None:
        pass

    def _get_ddp_logging_data(self) -> Any:
        return SimpleNamespace(strs_map={}, ints_map={})

    def _nothing(self, *_: Any, **__: Any) -> None:
        """Do nothing: there is no log."""

    set_construction_data_and_log = _nothing
    set_runtime_stats_and_log = _nothing
    set_error_and_log = _nothing
    _set_comm_hook_name = _nothing
    _set_uneven_input_join = _nothing
    _set_static_graph = _nothing


def register_comm_hook(reducer: Reducer, state: Any, hook: Callable[..., Any]) -> None:
    """Replaces torch's function of this name."""
    reducer.set_hook(lambda bucket: hook(state, bucket))


def register_builtin_comm_hook(reducer: Reducer, kind: Any) -> None:
    """Replaces torch's function of this name, for its two hooks in C++."""
    if kind.name != _COMPRESSED:
        return

    def compressed(bucket: Bucket) -> Any:
        buffer = bucket.buffer()
        small = buffer.half()
        small.div_(reducer._group.size())
        reducer._group.allreduce([small])
        buffer.copy_(small)
        return buffer

    reducer.set_hook(compressed)


def replacements() -> dict[str, Any]:
    """The replacements by name in `torch.distributed`."""

    def verify(*_: Any, **__: Any) -> None:
        """Do nothing: the other ranks are assumed to have the same parameters."""

    return {
        "Reducer": Reducer,
        "Logger": Logger,
        torch_private_distributed.REGISTER_HOOK: register_comm_hook,
        torch_private_distributed.REGISTER_BUILTIN_HOOK: register_builtin_comm_hook,
        torch_private_distributed.VERIFY_PARAMETERS: verify,
    }


def _reached(outputs: list[Any]) -> set[int]:
    """The `id`s of the parameters that gradients will reach."""
    found, seen = set(), set()
    todo = [output.grad_fn for output in outputs if output.grad_fn is not None]
    while todo:
        node = todo.pop()
        if node in seen:
            continue
        seen.add(node)
        variable = getattr(node, "variable", None)
        if variable is not None:
            found.add(id(variable))
        todo.extend(following for following, _ in node.next_functions if following is not None)
    return found


def _value(result: Any) -> Any:
    """The tensor in a hook's result: a tensor, or a future of a tensor or of a list with one."""
    if hasattr(result, "wait"):
        result = result.wait()
    return result[0] if isinstance(result, list | tuple) else result
