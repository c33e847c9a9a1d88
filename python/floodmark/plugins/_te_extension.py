"""A replacement for `transformer_engine_torch`, the compiled part of Transformer Engine.

The layers of Transformer Engine are Python: they decide what is quantized, saved for the backward
pass and recomputed. Only the kernels are compiled, and those cannot run on tensors without memory.
So the layers of the installed version run unchanged, and the kernels are replaced by functions that
allocate the same tensors. Sees: the names that the extension exports. Knows nothing of plugins.
"""

from __future__ import annotations

import functools
import importlib.machinery
from collections.abc import Callable
from enum import IntEnum
from types import ModuleType
from typing import Any

from floodmark.plugins import _te_attention, _te_casts, _te_kernels

NAME = "transformer_engine_torch"

_LAYOUTS = (
    "SB3HD SBH3D SBHD_SB2HD SBHD_SBH2D SBHD_SBHD_SBHD BS3HD BSH3D BSHD_BS2HD BSHD_BSH2D "
    "BSHD_BSHD_BSHD T3HD TH3D THD_T2HD THD_TH2D THD_THD_THD SBHD_BSHD_BSHD BSHD_SBHD_SBHD "
    "THD_BSHD_BSHD THD_SBHD_SBHD Paged_KV_BSHD_BSHD_BSHD Paged_KV_BSHD_SBHD_SBHD "
    "Paged_KV_SBHD_BSHD_BSHD Paged_KV_SBHD_SBHD_SBHD Paged_KV_THD_BSHD_BSHD "
    "Paged_KV_THD_SBHD_SBHD BHSD_BHSD_BHSD QKV_Layout_NOT_SET"
)
_FORMATS = "SBHD BSHD THD BSHD_2SBHD SBHD_2BSHD THD_2BSHD THD_2SBHD BHSD QKV_Format_NOT_SET"
_MASKS = (
    "NO_MASK PADDING_MASK CAUSAL_MASK PADDING_CAUSAL_MASK CAUSAL_BOTTOM_RIGHT_MASK "
    "PADDING_CAUSAL_BOTTOM_RIGHT_MASK"
)
_FORWARD = " ".join(
    f"GEMM{which}_{what}" for which in (1, 2, 3) for what in ("INPUT", "WEIGHT", "OUTPUT")
)
_BACKWARD = " ".join(f"GRAD_{what}{which}" for which in (1, 2, 3) for what in ("OUTPUT", "INPUT"))
_ALGORITHMS = (
    "BULK_OVERLAP_AG BULK_OVERLAP_RS SPLIT_PIPELINED_AG_P2P SPLIT_PIPELINED_RS "
    "SPLIT_PIPELINED_RS_P2P ATOMIC_GEMM_RS ATOMIC_GEMM_AG_P2P ATOMIC_GEMM_RS_P2P "
    "EXTERNAL_BULK_OVERLAP_AG"
)


def _counted(names: str, prefix: str = "") -> dict[str, int]:
    return {prefix + name: number for number, name in enumerate(names.split())}


#: The enumerations, with the values of the public headers.
_ENUMS: dict[str, dict[str, int]] = {
    "DType": {
        "kByte": 0,
        "kInt32": 2,
        "kFloat32": 4,
        "kFloat16": 5,
        "kBFloat16": 6,
        "kFloat8E4M3": 7,
        "kFloat8E5M2": 8,
        "kFloat4E2M1": 10,
    },
    "NVTE_QKV_Layout": _counted(_LAYOUTS, "NVTE_"),
    "NVTE_QKV_Format": _counted(_FORMATS, "NVTE_"),
    "NVTE_Bias_Type": _counted("NO_BIAS PRE_SCALE_BIAS POST_SCALE_BIAS ALIBI", "NVTE_"),
    "NVTE_Mask_Type": _counted(_MASKS, "NVTE_"),
    "NVTE_Softmax_Type": _counted("VANILLA_SOFTMAX OFF_BY_ONE_SOFTMAX LEARNABLE_SOFTMAX", "NVTE_"),
    "NVTE_Fused_Attn_Backend": {
        "NVTE_No_Backend": -1,
        "NVTE_F16_arbitrary_seqlen": 1,
        "NVTE_FP8": 2,
    },
    "NVTEScalingMode": {
        "NVTE_DELAYED_TENSOR_SCALING": 0,
        "NVTE_MXFP8_1D_SCALING": 1,
        "NVTE_BLOCK_SCALING_1D": 2,
        "NVTE_BLOCK_SCALING_2D": 3,
        "NVTE_NVFP4_1D_SCALING": 4,
        "NVTE_INVALID_SCALING": 100,
    },
    "NVTERoutingMapFormat": _counted("BYTEMAP BITMAP_U8"),
    "NVTEQBHistogramMode": _counted("TWO_KERNEL FUSED_ATOMIC"),
    "Float8BlockScaleTensorFormat": _counted("GEMM_READY COMPACT INVALID"),
    "CommOverlapType": _counted("RS AG"),
    "CommOverlapAlgo": _counted(_ALGORITHMS),
    "FP8FwdTensors": _counted(_FORWARD),
    "FP8BwdTensors": _counted(_BACKWARD),
}

#: Classes that the layers use only in annotations and in `isinstance`.
_CLASSES = (
    "CommOverlapCore",
    "CommOverlapBase",
    "CommOverlapP2PBase",
    "CommOverlapHelper",
    "CommOverlap",
    "CommOverlapP2P",
    "FP8TensorMeta",
)


def functions() -> dict[str, Callable[..., Any]]:
    """The replaced kernels by the extension's names."""
    return {
        **_te_casts.functions(),
        **_te_kernels.functions(),
        **_te_attention.functions(),
    }


class ReplacedExtension(ModuleType):
    """The module: enumerations, classes and kernels; any other kernel raises an error."""

    def __init__(self) -> None:
        super().__init__(NAME, "Stands in for the compiled part of Transformer Engine.")
        self.__spec__ = importlib.machinery.ModuleSpec(NAME, None)
        #: Whether an estimate runs: outside one the kernels raise, since tensors would have no
        #: values.
        self.serving = False
        for name, members in _ENUMS.items():
            setattr(self, name, IntEnum(name, members, module=NAME))
        for name in _CLASSES:
            setattr(self, name, type(name, (), {"__module__": NAME}))
        for name, kernel in functions().items():
            setattr(self, name, self._guarded(name, kernel))

    def _guarded(self, name: str, kernel: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(kernel)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            if not self.serving:
                raise RuntimeError(
                    f"`{NAME}.{name}` has no compiled kernel here: it was imported during an "
                    "estimate, and only an estimate can call it"
                )
            return kernel(*args, **kwargs)

        guarded.__name__ = name
        return guarded

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {NAME!r} has no attribute {name!r}")

        def missing(*_: Any, **__: Any) -> Any:
            raise NotImplementedError(
                f"`{NAME}.{name}` has no stand-in with fake tensors; the engine `phantom` runs it"
            )

        missing.__name__ = name
        return missing
