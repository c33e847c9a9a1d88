"""Optimizer states in 8 bits: `optimizer-states=8bit`, `optimizer-states=paged-8bit`.

Adam and AdamW of torch become those of bitsandbytes or torchao, whichever is installed; neither is
needed otherwise, and neither is imported before the program makes such an optimizer. With
`paged-8bit` the states are in managed memory, which only bitsandbytes has: the driver moves them to
the host where the GPU has no room. They are no memory of torch, on a simulated GPU neither.
"""

from __future__ import annotations

import importlib
from typing import Any

from floodmark.changes.change import is_installed
from floodmark.changes.pasted_code import callers, current_trainer, trainer_name
from floodmark.changes.replaced_optimizers import ReplacedOptimizer, Replacement, assignments

#: The libraries, and the module of each that has the optimizers.
_MODULES = {"bitsandbytes": "bitsandbytes.optim", "torchao": "torchao.optim"}
#: What their class in place of `AdamW` is called, and the same for the `Trainer` of transformers.
_NAMES = {
    "8bit": ("{}8bit", {"bitsandbytes": "adamw_bnb_8bit", "torchao": "adamw_torch_8bit"}),
    "paged-8bit": ("Paged{}8bit", {"bitsandbytes": "paged_adamw_8bit"}),
}


class EightBitStates(ReplacedOptimizer):
    """Keeps the states of Adam in 8 bits, with a scale for each block of them."""

    name = "optimizer-states"
    numerics = "changed"
    _title = "8-bit optimizers"

    def __init__(self, argument: str = "") -> None:
        super().__init__(argument)
        self._class_name, self._trainer_names = _NAMES[argument]
        # Pages are copied over the link to the host where the GPU has no room.
        self.slows = argument == "paged-8bit"

    def _replacement(self, torch: Any, kind: Any, params: Any) -> Replacement | None:  # noqa: ARG002
        found = self._class_like(kind.__name__)
        if found is None:
            return None
        module, replacement = found
        library = module.partition(".")[0]
        return Replacement(
            replacement,
            f"`{kind.__name__}`, by {library}",
            _patch(module, kind, replacement.__name__, self._trainer_names[library]),
        )

    def _class_like(self, name: str) -> tuple[str, Any] | None:
        """The first library that is installed and can be imported, and its class."""
        installed = [library for library in self._trainer_names if is_installed(library)]
        if not installed:
            known = [f"`{library}`" for library in self._trainer_names]
            none = f"neither {' nor '.join(known)} is" if len(known) > 1 else f"{known[0]} is not"
            self.reason = f"{none} installed"
        for library in installed:
            module = _MODULES[library]
            try:
                found = importlib.import_module(module)
                return module, getattr(found, self._class_name.format(name))
            except Exception as error:
                self.reason = f"`{module}` cannot be imported here: {error!r}"
        return None


def _patch(module: str, kind: Any, replacement: str, trainer_value: str) -> str:
    trainer = current_trainer()
    if trainer is not None:
        name = trainer_name(trainer, next(callers(), None))
        return f'# before `{name}.train()`\n{name}.args.optim = "{trainer_value}"\n'
    imported = f"# before the optimizer is made\nfrom {module} import {replacement}\n"
    return imported + assignments(kind, replacement)
