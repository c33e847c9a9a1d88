"""Autotuners of Triton and inductor on a simulated GPU, where no kernel has a duration.

They compile every configuration of a kernel, which takes a second or more each, and choose the
fastest one. Here all times are those of the host, so the first configuration that the GPU can run
is as good as any. It is still benchmarked, because that allocates memory. Sees: Triton and inductor
as they are imported. Knows nothing of recordings.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from floodmark import torch_private
from floodmark.recording.import_watch import ImportWatch

#: The attribute of a Triton autotuner: whether it has benchmarked a configuration for this key.
_MEASURED = "_floodmark_has_measured"
_NEVER = [float("inf")] * 3

_watches: list[ImportWatch] = []


def install() -> None:
    """Make autotuners of this process choose their first configuration."""
    if not _watches:
        _watches.extend(ImportWatch(name, patch) for name, patch in _PATCHES.items())


def _patch_triton(autotuner: ModuleType) -> None:
    kind = autotuner.Autotuner
    prune, bench = kind.prune_configs, kind._bench

    def begin(self: Any, *args: Any, **kwargs: Any) -> Any:
        setattr(self, _MEASURED, False)
        return prune(self, *args, **kwargs)

    def bench_first(self: Any, *args: Any, **kwargs: Any) -> Any:
        if getattr(self, _MEASURED, False):
            return _NEVER
        times = bench(self, *args, **kwargs)
        setattr(self, _MEASURED, times != _NEVER)
        return times

    kind.prune_configs, kind._bench = begin, bench_first


def _patch_inductor(heuristics: ModuleType) -> None:
    kind, name = torch_private.inductor_autotuner(heuristics)
    compile_all = getattr(kind, name)

    def compile_first(self: Any) -> None:
        configs = self.configs
        if self.compile_results or not configs or len(configs) == 1:
            compile_all(self)
            return
        for config in configs:
            self.configs = [config]
            try:
                compile_all(self)
                break
            except Exception:
                # The configuration does not fit on the GPU.
                if config is configs[-1]:
                    raise
        # torch benchmarks only if there are several.
        self.compile_results = [*self.compile_results, *self.compile_results]

    setattr(kind, name, compile_first)


def _patch_templates(selection: ModuleType) -> None:
    """`mode="max-autotune"` compares kernels of inductor with those of libraries."""
    add = getattr(selection, "add_preprocessing_fn", None)
    if add is not None:
        add(lambda choices: torch_private.library_kernel(selection, choices))


_PATCHES = {
    "triton.runtime.autotuner": _patch_triton,
    "torch._inductor.runtime.triton_heuristics": _patch_inductor,
    "torch._inductor.select_algorithm": _patch_templates,
}
