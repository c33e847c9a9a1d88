"""What torch itself needs in order to train with fake tensors, as a plugin like any other.

Sees: torch. Talks to: the engine, for what memory there is. Undoes itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from types import ModuleType
from typing import Any

from floodmark import torch_private
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
        """Patch it."""
        self._take_foreach_ways(torch)
        self._let_modules_be_moved()
        if not torch_private.moves_fake_parameters(torch):
            self._swap_moved_parameters(torch)
        self._let_swaps_be_watched(torch)
        self._watch_storages(torch)
        self._flatten_recurrent_weights(torch)
        self._pad_packed_sequences(torch)
        self._answer_for_memory(torch)
        self._keep_data_real(torch)
        self._run_backward_here(torch)
        self._accumulate_in_place(torch)
        self._copy_sparse(torch)
        self._wait_in_place(torch)

    def _take_foreach_ways(self, torch: Any) -> None:
        """On a GPU optimizers and clipping work on lists; they ask for types that they know."""
        fake = torch_private.fake_tensor_class()
        for known in torch_private.foreach_types():
            known.append(fake)
            self.on_exit(partial(known.remove, fake))

    def _let_modules_be_moved(self) -> None:
        """`Module.to` swaps tensors, which none may watch weakly; torch's converter does."""
        converter: Any = self._engine.fake.fake_tensor_converter
        remember = converter.set_tensor_memo

        def remember_real(tensor: Any, fake: Any) -> None:
            # Results of kernels come from `meta`, and are not requested again.
            if tensor.device.type != "meta":
                remember(tensor, fake)

        # An attribute of this one converter, which is ours and goes with the block.
        converter.set_tensor_memo = remember_real

    def _swap_moved_parameters(self, torch: Any) -> None:
        """An old `Module.to` needs a flag to swap fake parameters, as a newer one does."""
        fake = torch_private.fake_tensor_class()
        future = torch.__future__
        wanted = future.get_swap_module_params_on_conversion()
        slot = torch_private.module_apply(torch)
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

    def _let_swaps_be_watched(self, torch: Any) -> None:
        """A tensor that is held elsewhere too is given the other's data, as on a GPU."""
        fake = torch_private.fake_tensor_class()
        swap = torch.utils.swap_tensors

        def swapped(one: Any, other: Any) -> None:
            if not (isinstance(one, fake) and isinstance(other, fake)):
                swap(one, other)
                return
            if other.device.type == "meta" or one.device.type == "meta":
                one.__dict__, other.__dict__ = other.__dict__, one.__dict__
                torch_private.swap_implementations(torch, one, other)
                return
            one.data = other.detach()

        self.replace(torch.utils, "swap_tensors", swapped)
        self._let_data_be_moved(torch, fake)

    def _let_data_be_moved(self, torch: Any, fake: Any) -> None:
        """`p.data = p.data.cuda()`: where a fake tensor lies, it says of itself."""
        data = torch.Tensor.data

        def give(tensor: Any, value: Any) -> None:
            data.__set__(tensor, value)
            if isinstance(value, fake):
                tensor.fake_device = value.fake_device

        self.replace(fake, "data", property(data.__get__, give))

    def _watch_storages(self, torch: Any) -> None:
        """A storage may be resized without an operator: FSDP does it for every unshard."""
        resize = torch.UntypedStorage.resize_
        operators = self._engine.operators

        def resized(storage: Any, size: int) -> Any:
            result = resize(storage, size)
            operators.resized(storage)
            return result

        self.replace(torch.UntypedStorage, "resize_", resized)

    def _flatten_recurrent_weights(self, torch: Any) -> None:
        """Recurrent modules look at addresses before they lay their weights into one buffer."""
        from torch.nn.modules import rnn

        flatten = rnn.RNNBase.flatten_parameters
        fake = torch_private.fake_tensor_class()

        def flattened(module: Any) -> None:
            weights = torch_private.flat_weights(module)
            are_fake = all(isinstance(w, fake) and w.device.type == "cuda" for w in weights)
            # torch leaves other types apart, bfloat16 among them, and copies them in every call.
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
        """torch writes the lengths into memory that a fake tensor does not have."""
        slot = torch_private.pad_packed_sequence()
        pad = getattr(*slot)
        fake = torch_private.fake_tensor_class()

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

    def _answer_for_memory(self, torch: Any) -> None:
        """What a program asks of torch's allocator is answered here, not by torch."""
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
        for name, answer in answers.items():
            for owner in (cuda, cuda.memory):
                if hasattr(owner, name):
                    self.replace(owner, name, answer)

    def _keep_data_real(self, torch: Any) -> None:
        """Data are loaded as always; what a loader gives becomes fake."""
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
                yield _fake(torch, engine, follow, batch)

        self.replace(data.DataLoader, "__iter__", iterated)

    def _run_backward_here(self, torch: Any) -> None:
        """On this thread: others need a device's guard, which only a build with CUDA has."""
        self.on_exit(torch_private.run_backward_on_this_thread(torch))

    def _accumulate_in_place(self, torch: Any) -> None:
        """Autograd adds to a gradient in place, but not to one of a kind of its own.

        In the sums of a tensor that is used twice it does so where nothing else has the first.
        """
        add = torch.ops.aten.add.Tensor
        add_in_place = torch.ops.aten.add_.Tensor
        graph_task = torch_private.graph_task(torch)
        is_alone = _alone(torch)

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
        """Torch's own shape of a sparse tensor's copy has no elements."""
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
        """To wait for a collective makes nothing; torch's own shape of it is a new tensor."""
        functional = torch.ops._c10d_functional
        if hasattr(functional, "wait_tensor"):
            self.setting.operators[functional.wait_tensor.default] = _waited


def _waited(_func: Any, args: Any, _kwargs: Any) -> Any:
    """What was waited for."""
    return args[0]


def _alone(torch: Any) -> Callable[[Any], bool]:
    """Whether autograd alone has a gradient that it hands to an operator.

    It has one reference, and the call has three: of its stack, of Python, and of the question.
    """

    def users_of(tensor: Any) -> int:
        # Held here: on older versions that is one user more.
        storage = tensor.untyped_storage()
        return torch_private.storage_users(torch, storage)

    fewest = users_of(torch.empty(1))

    def is_alone(tensor: Any) -> bool:
        is_one = torch_private.references_of(tensor) == 4 and tensor.layout == torch.strided
        return is_one and is_dense(tensor) and users_of(tensor) <= fewest

    return is_alone


def _fake(torch: Any, engine: Engine, follow: Follow, value: Any) -> Any:
    """What a loader gave, with fake tensors for real ones."""
    tree_map = torch_private.trees().tree_map
    fake = torch_private.fake_tensor_class()

    def one(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor) or isinstance(leaf, fake):
            return leaf
        tensor = engine.fake.from_tensor(leaf)
        engine.operators.adopt(tensor, "DataLoader")
        follow.give(tensor, leaf)
        return tensor

    mapped = tree_map(one, value)
    # A mapping of its own kind (a tokenizer's batch) is a leaf for torch.
    if mapped is value and hasattr(value, "data") and isinstance(value.data, dict):
        value.data = tree_map(one, value.data)
    return mapped
