"""The plugin that patches torch itself so that it trains with fake tensors.

Sees: torch. Talks to: the engine, for memory statistics. Undoes itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from types import ModuleType
from typing import Any

from floodmark import torch_private, torch_private_fakes
from floodmark.estimate.fake.engine import Engine
from floodmark.estimate.values.fake_values import Follow
from floodmark.plugins import Plugin, Setting
from floodmark.world.storages import is_dense


class Torch(Plugin):
    """Patches torch for the time of a block of fake tensors."""

    name = "torch"
    library = "torch"
    is_required = True

    def __init__(self, setting: Setting, engine: Engine, follow: Follow) -> None:
        super().__init__(setting)
        self._engine = engine
        self._follow = follow

    def attach(self, torch: ModuleType) -> None:
        """Patch torch."""
        self._enable_foreach(torch)
        self._support_module_to()
        if not torch_private_fakes.moves_fake_parameters(torch):
            self._swap_moved_parameters(torch)
        self._support_swapped_tensors(torch)
        self._watch_storages(torch)
        self._flatten_recurrent_weights(torch)
        self._pad_packed_sequences(torch)
        self._replace_memory_statistics(torch)
        self._keep_data_real(torch)
        self._run_backward_on_one_thread(torch)
        self._accumulate_in_place(torch)
        self._copy_sparse(torch)
        self._wait_in_place(torch)

    def _enable_foreach(self, torch: Any) -> None:
        """Let optimizers and clipping use foreach operators, as on a GPU: they check tensor
        types."""
        fake = torch_private_fakes.fake_tensor_class()
        for known in torch_private.foreach_types():
            known.append(fake)
            self.on_exit(partial(known.remove, fake))

    def _support_module_to(self) -> None:
        """`Module.to` swaps tensors only without weak references; torch's converter keeps some."""
        converter: Any = self._engine.fake.fake_tensor_converter
        remember = converter.set_tensor_memo

        def remember_real(tensor: Any, fake: Any) -> None:
            # Tensors on `meta` are results of kernels and are converted only once.
            if tensor.device.type != "meta":
                remember(tensor, fake)

        # An attribute of this converter instance, which lives as long as the block.
        converter.set_tensor_memo = remember_real

    def _swap_moved_parameters(self, torch: Any) -> None:
        """Old versions of `Module.to` need a flag to swap fake parameters; newer ones always do."""
        fake = torch_private_fakes.fake_tensor_class()
        future = torch.__future__
        wanted = future.get_swap_module_params_on_conversion()
        slot = torch_private_fakes.module_apply(torch)
        apply = getattr(*slot)

        def applied(module: Any, *args: Any, **kwargs: Any) -> Any:
            own = [each for each in torch_private.parameters(module).values() if each is not None]
            before = future.get_swap_module_params_on_conversion()
            are_fake = bool(own) and all(isinstance(each, fake) for each in own)
            future.set_swap_module_params_on_conversion(wanted or are_fake)
            try:
                return apply(module, *args, **kwargs)
            finally:
                future.set_swap_module_params_on_conversion(before)

        self.replace(*slot, applied)

    def _support_swapped_tensors(self, torch: Any) -> None:
        """Swap fake tensors that have weak references by setting their data."""
        fake = torch_private_fakes.fake_tensor_class()
        swap = torch.utils.swap_tensors

        def swapped(one: Any, other: Any) -> None:
            if not (isinstance(one, fake) and isinstance(other, fake)):
                swap(one, other)
                return
            if other.device.type == "meta" or one.device.type == "meta":
                one.__dict__, other.__dict__ = other.__dict__, one.__dict__
                torch_private_fakes.swap_implementations(torch, one, other)
                return
            one.data = other.detach()

        self.replace(torch.utils, "swap_tensors", swapped)
        self._support_moved_data(torch, fake)

    def _support_moved_data(self, torch: Any, fake: Any) -> None:
        """Support `p.data = p.data.cuda()`: the device is an attribute of a fake tensor."""
        data = torch.Tensor.data

        def give(tensor: Any, value: Any) -> None:
            data.__set__(tensor, value)
            if isinstance(value, fake):
                tensor.fake_device = value.fake_device

        self.replace(fake, "data", property(data.__get__, give))

    def _watch_storages(self, torch: Any) -> None:
        """Report storages that are resized without an operator: FSDP does so at every unshard."""
        resize = torch.UntypedStorage.resize_
        operators = self._engine.operators

        def resized(storage: Any, size: int) -> Any:
            result = resize(storage, size)
            operators.resized(storage)
            return result

        self.replace(torch.UntypedStorage, "resize_", resized)

    def _flatten_recurrent_weights(self, torch: Any) -> None:
        """Recurrent modules compare addresses before they copy their weights into one buffer."""
        from torch.nn.modules import rnn

        flatten = rnn.RNNBase.flatten_parameters
        fake = torch_private_fakes.fake_tensor_class()

        def flattened(module: Any) -> None:
            weights = torch_private.flat_weights(module)
            are_fake = all(isinstance(w, fake) and w.device.type == "cuda" for w in weights)
            # torch does not flatten other types, such as bfloat16, and copies the weights in every
            # call.
            is_taken = weights[0].dtype in torch.backends.cudnn.CUDNN_TENSOR_DTYPES
            if not are_fake or not is_taken or len({w.dtype for w in weights}) != 1:
                flatten(module)
                return
            with torch.no_grad():
                torch_private.flatten_recurrent_weights(
                    torch,
                    weights,
                    (4 if module.bias else 2) + (module.proj_size > 0),
                    module.input_size,
                    torch.backends.cudnn.rnn.get_cudnn_mode(module.mode),
                    module.hidden_size,
                    module.proj_size,
                    module.num_layers,
                    module.batch_first,
                    bool(module.bidirectional),
                )

        self.replace(rnn.RNNBase, "flatten_parameters", flattened)

    def _pad_packed_sequences(self, torch: Any) -> None:
        """torch would write the lengths into the tensor's memory, which a fake tensor does not
        have."""
        slot = torch_private.pad_packed_sequence()
        pad = getattr(*slot)
        fake = torch_private_fakes.fake_tensor_class()

        def padded(data: Any, sizes: Any, batch_first: bool, value: float, total: int) -> Any:
            if not isinstance(data, fake) or isinstance(sizes, fake):
                return pad(data, sizes, batch_first, value, total)
            with torch_private.outside_modes():
                counts = sizes.tolist()
                long = [sum(count > at for count in counts) for at in range(counts[0])]
                lengths = torch.tensor(long, dtype=torch.int64)
            out = data.new_full((max(total, len(counts)), counts[0], *data.shape[1:]), value)
            rows, start = 0, 0
            for end in range(1, len(counts) + 1):
                count = counts[start]
                if end < len(counts) and counts[end] == count:
                    continue
                part = data[rows : rows + count * (end - start)]
                out[start:end, :count].copy_(part.view(end - start, count, *data.shape[1:]))
                rows, start = rows + count * (end - start), end
            return (out.transpose(0, 1) if batch_first else out), lengths

        self.replace(*slot, padded)

    def _replace_memory_statistics(self, torch: Any) -> None:
        """Replace torch's functions for memory statistics."""
        engine = self._engine
        cuda = torch.cuda

        def device_of(device: Any) -> Any:
            if device is None:
                return torch.device("cuda", cuda.current_device())
            return torch.device("cuda", device) if isinstance(device, int) else device

        def level(at: int) -> Callable[..., int]:
            return lambda device=None: engine.level(device_of(device))[at]

        def reset(_device: Any = None) -> None:
            engine.operators.reset_peaks()

        def empty() -> None:
            engine.operators.empty_cache()

        answers: dict[str, Callable[..., Any]] = {
            "memory_allocated": level(0),
            "max_memory_allocated": level(1),
            "memory_reserved": level(2),
            "max_memory_reserved": level(3),
            "reset_peak_memory_stats": reset,
            "reset_max_memory_allocated": reset,
            "empty_cache": empty,
        }
        self.replace_in((cuda, cuda.memory), answers)

    def _keep_data_real(self, torch: Any) -> None:
        """Load data as usual, and convert each batch to fake tensors."""
        from torch.utils import data

        engine, follow = self._engine, self._follow
        iterate = data.DataLoader.__iter__

        def iterated(loader: Any) -> Iterator[Any]:
            with torch_private.outside_modes():
                batches = iterate(loader)
            while True:
                try:
                    with torch_private.outside_modes():
                        batch = next(batches)
                except StopIteration:
                    return
                yield _fake_batch(torch, engine, follow, batch)

        self.replace(data.DataLoader, "__iter__", iterated)

    def _run_backward_on_one_thread(self, torch: Any) -> None:
        """Other threads need a device guard, which only a build with CUDA has."""
        self.on_exit(torch_private.run_backward_on_this_thread(torch))

    def _accumulate_in_place(self, torch: Any) -> None:
        """Autograd adds to a gradient in place, but not if it is a tensor subclass.

        For a tensor that is used twice, it adds in place if nothing else refers to the first
        gradient.
        """
        add = torch.ops.aten.add.Tensor
        add_in_place = torch.ops.aten.add_.Tensor
        graph_task = torch_private.graph_task(torch)
        is_alone = _owned_by_autograd(torch)

        def accumulate(func: Any, args: Any, kwargs: Any) -> Any:
            if graph_task() == -1 or kwargs or len(args) != 2 or torch.is_grad_enabled():
                return func(*args, **kwargs or {})
            one, other = args
            if not isinstance(other, torch.Tensor) or one.shape != other.shape:
                return func(*args)
            if one.dtype != other.dtype:
                return func(*args)
            node = torch_private.backward_node(torch)
            if node is not None and "AccumulateGrad" not in node.name() and not is_alone(one):
                return func(*args)
            add_in_place(one, other)
            return one

        self.setting.operators[add] = accumulate

    def _copy_sparse(self, torch: Any) -> None:
        """torch's fake copy of a sparse tensor would have no elements."""
        adopt = self._engine.operators.adopt

        def copied(func: Any, args: Any, kwargs: Any) -> Any:
            sparse = args[0]
            if sparse.layout != torch.sparse_coo:
                return func(*args, **kwargs or {})
            parts = [part.clone() for part in torch_private.sparse_parts(sparse)]
            for part in parts:
                adopt(part, "aten::clone")
            return torch.sparse_coo_tensor(*parts, sparse.shape, check_invariants=False)

        self.setting.operators[torch.ops.aten.clone.default] = copied

    def _wait_in_place(self, torch: Any) -> None:
        """Waiting for a collective allocates nothing; torch's fake operator would return a new
        tensor."""
        functional = torch.ops._c10d_functional
        if hasattr(functional, "wait_tensor"):
            self.setting.operators[functional.wait_tensor.default] = _waited


def _waited(_func: Any, args: Any, _kwargs: Any) -> Any:
    """The argument of a wait."""
    return args[0]


def _owned_by_autograd(torch: Any) -> Callable[[Any], bool]:
    """A function that returns whether only autograd refers to a gradient.

    Autograd has one reference and this call three: the operator's stack, Python, and the check.
    """

    def users_of(tensor: Any) -> int:
        # A variable for the storage: on older versions it counts as one more user.
        storage = tensor.untyped_storage()
        return torch_private.storage_users(torch, storage)

    fewest = users_of(torch.empty(1))

    def is_alone(tensor: Any) -> bool:
        is_one = torch_private.references_of(tensor) == 4 and tensor.layout == torch.strided
        return is_one and is_dense(tensor) and users_of(tensor) <= fewest

    return is_alone


def _fake_batch(torch: Any, engine: Engine, follow: Follow, value: Any) -> Any:
    """A batch of a loader with fake tensors in place of real ones."""
    tree_map = torch_private.trees().tree_map
    fake = torch_private_fakes.fake_tensor_class()

    def one(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor) or isinstance(leaf, fake):
            return leaf
        tensor = engine.fake.from_tensor(leaf)
        engine.operators.adopt(tensor, "DataLoader")
        follow.give(tensor, leaf)
        return tensor

    mapped = tree_map(one, value)
    # torch's pytree does not open mappings of other classes, such as a tokenizer's batch.
    if mapped is value and hasattr(value, "data") and isinstance(value.data, dict):
        value.data = tree_map(one, value.data)
    return mapped
