"""A model that is sharded over several GPUs: `fsdp=4`.

FSDP2 (`fully_shard`) of the repeated blocks and of the model, when the program makes an optimizer
of its parameters: the optimizer gets the shards. The process must be a rank of a world of that
size: in an estimate it is rank 0 of a simulated one, otherwise `torchrun` starts the ranks. Each
rank computes what the program computes, on data of its own. A model that is sharded stays so at the
end. Sees: the constructors of optimizers.
"""

from __future__ import annotations

import os
import sys
import weakref
from functools import wraps
from typing import Any

from floodmark import torch_private
from floodmark.changes.change import Change
from floodmark.changes.optimizer_parameters import listed, mapped, model_of, tensors_in
from floodmark.changes.pasted_code import model_name
from floodmark.changes.repeated_blocks import repeated_blocks

_PATCH = """\
# start it with `torchrun --nproc-per-node {size} …`; each rank reads a part of the data
import os
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))  # before the model is on the GPU
mesh = init_device_mesh("cuda", ({size},))
{blocks}fully_shard({model}, mesh=mesh)  # before the optimizer is made
"""


class Sharding(Change):
    """Shards parameters, gradients and optimizer states over the GPUs of a world."""

    name = "fsdp"
    slows = True
    numerics = "rounding"

    def __init__(self, argument: str = "") -> None:
        super().__init__(argument)
        self._size = int(argument)

    def attach(self, torch: Any) -> None:
        self._torch = torch
        world = int(os.environ.get("WORLD_SIZE", "1"))
        if world != self._size:
            self.give_up(
                f"there are not {self._size} ranks but {world}: "
                f"start it with `torchrun --nproc-per-node {self._size}`"
            )
            return
        local = int(os.environ.get("LOCAL_RANK", "0"))
        torch_private.when_cuda_is_ready(torch, lambda: torch.cuda.set_device(local))
        base = torch.optim.Optimizer
        init = base.__init__

        @wraps(init)
        def changed(optimizer: Any, params: Any, *args: Any, **kwargs: Any) -> None:
            if not self.reason and not self.target:
                params = self._sharded(params)
            init(optimizer, params, *args, **kwargs)

        self.replace(base, "__init__", changed)

    def prepare(self, root: Any, frame: Any) -> None:  # noqa: ARG002
        if not self.target and not self.reason:
            self.reason = "the model was called before an optimizer of its parameters was made"

    def _sharded(self, params: Any) -> Any:
        """Shard the model that has these parameters; the same of what it has now."""
        torch = self._torch
        params = listed(torch, params)
        given = tensors_in(params)
        root = model_of(torch, given)
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            self.reason = "the program is distributed already"
        elif root is None:
            self.reason = "no module has the parameters of the optimizer"
        if root is None or self.reason:
            return params
        names = {id(one): name for name, one in root.named_parameters(remove_duplicate=False)}
        # From here on no name of ours holds a whole parameter: what is sharded is freed.
        given.clear()
        params = mapped(params, lambda one: names.get(id(one), one))
        self._shard(root)
        shards = dict(root.named_parameters(remove_duplicate=False))
        return mapped(params, lambda one: shards[one] if isinstance(one, str) else one)

    def _shard(self, root: Any) -> None:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        torch = self._torch
        mesh = init_device_mesh("cuda", (self._size,))
        found = repeated_blocks(torch, root)
        blocks = [] if found is None else found.blocks
        for module in (*blocks, root):
            whole = [weakref.ref(one) for one in module.parameters()]
            fully_shard(module, mesh=mesh)
            sharded = set(map(id, module.parameters()))
            for reference in whole:
                one = reference()
                if one is not None and id(one) not in sharded:
                    # The program still has it in a list; its data is in the shards now.
                    one.data = one.data.new_empty(0)
        model = model_name(root, sys._getframe(1))
        loop = ""
        if found is not None:
            loop = f"for block in {found.expression(model)}:\n    fully_shard(block, mesh=mesh)\n"
            self.target = found.described(len(blocks)) + " and the rest"
        else:
            self.target = f"`{type(root).__name__}`"
        self.patch = _PATCH.format(size=self._size, blocks=loop, model=model)

    def nothing_found(self) -> str:
        return "the program makes no optimizer"
