"""Plugin for safetensors under fake tensors: reads and writes only the headers of files.

Its native reader would fill memory that a fake tensor does not have, and crash the process. A
written file has a header and then a hole: its size is right, and it needs no disk space. Sees:
headers. Reads no values.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Mapping
from types import ModuleType, TracebackType
from typing import Any

from floodmark import torch_private_fakes
from floodmark.plugins import Plugin

#: The format's names of torch's types.
_TYPES = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "F8_E8M0": "float8_e8m0fnu",
    "C64": "complex64",
    "I64": "int64",
    "I32": "int32",
    "I16": "int16",
    "I8": "int8",
    "U64": "uint64",
    "U32": "uint32",
    "U16": "uint16",
    "U8": "uint8",
    "BOOL": "bool",
}

#: The metadata of a file without values.
_MARK = {"floodmark": "written in an estimate: shapes and no values"}


class Safetensors(Plugin):
    """Replaces the reader and the writer of safetensors."""

    name = "safetensors"
    library = "safetensors"

    def attach(self, library: ModuleType) -> None:
        """Patch safetensors."""
        self._open_by_header(library)
        self.when_imported("safetensors.torch", self._write_headers)

    def _open_by_header(self, library: ModuleType) -> None:
        native = library.safe_open

        def opened(filename: Any, framework: str, device: Any = "cpu", **options: Any) -> Any:
            if framework not in ("pt", "torch", "pytorch"):
                return native(filename, framework=framework, device=device, **options)
            return Opened(filename, device)

        self.replace_everywhere(library, "safe_open", opened)

    def _write_headers(self, library: ModuleType) -> None:
        save_file, save = library.save_file, library.save

        def saved_file(tensors: Any, filename: Any, metadata: Any = None, **options: Any) -> None:
            if not _are_fake(tensors):
                return save_file(tensors, filename, metadata, **options)  # type: ignore[no-any-return]
            head, size = _header(tensors, metadata)
            with open(filename, "wb") as file:
                file.write(head)
                file.truncate(len(head) + size)
            self._say()
            return None

        def saved(tensors: Any, metadata: Any = None, **options: Any) -> Any:
            if not _are_fake(tensors):
                return save(tensors, metadata, **options)
            head, size = _header(tensors, metadata)
            self._say()
            return head + bytes(size)

        def loaded(data: bytes) -> dict[str, Any]:
            (length,) = struct.unpack_from("<Q", data)
            descriptions = json.loads(data[8 : 8 + length])
            descriptions.pop("__metadata__", None)
            return {name: _made(description, "cpu") for name, description in descriptions.items()}

        for name, made in {"save_file": saved_file, "save": saved, "load": loaded}.items():
            self.replace_everywhere(library, name, made)

    def _say(self) -> None:
        note = "Files written in the block have shapes and no values"
        self.setting.note(note)


class Opened:
    """The result of `safe_open`."""

    def __init__(self, filename: str | os.PathLike[str], device: Any) -> None:
        with open(filename, "rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            descriptions = json.loads(file.read(length))
        self._metadata: dict[str, str] | None = descriptions.pop("__metadata__", None)
        self._descriptions: dict[str, Any] = descriptions
        self._device = f"cuda:{device}" if isinstance(device, int) else device

    def __enter__(self) -> Opened:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        return None

    def metadata(self) -> dict[str, str] | None:
        """The metadata in the header."""
        return self._metadata

    def keys(self) -> list[str]:
        """The names of the tensors."""
        return sorted(self._descriptions)

    def offset_keys(self) -> list[str]:
        """The names in the order of the file."""
        return sorted(
            self._descriptions, key=lambda name: self._descriptions[name]["data_offsets"][0]
        )

    def get_tensor(self, name: str) -> Any:
        """An uninitialised tensor of the recorded shape and type."""
        return _made(self._description(name), self._device)

    def get_tensors(self) -> dict[str, Any]:
        """All tensors by name."""
        return {name: self.get_tensor(name) for name in self.offset_keys()}

    def get_slice(self, name: str) -> Slice:
        """A tensor that can be read in parts by indexing."""
        return Slice(self._description(name), self._device)

    def _description(self, name: str) -> Any:
        if name not in self._descriptions:
            import safetensors

            raise safetensors.SafetensorError(f"File does not contain tensor {name}")
        return self._descriptions[name]


class Slice:
    """A tensor of a file, before it is indexed."""

    def __init__(self, description: dict[str, Any], device: Any) -> None:
        self._description = description
        self._device = device

    def get_shape(self) -> list[int]:
        """The shape of the whole tensor."""
        return list(self._description["shape"])

    def get_dtype(self) -> str:
        """The format's name of the element type."""
        return str(self._description["dtype"])

    def __getitem__(self, index: Any) -> Any:
        part = _made(self._description, "meta")[index]
        return part.new_empty(part.shape, device=self._device)


def _made(description: dict[str, Any], device: Any) -> Any:
    import torch

    kind = getattr(torch, _TYPES[description["dtype"]])
    return torch.empty(description["shape"], dtype=kind, device=device)


def _are_fake(tensors: Mapping[str, Any]) -> bool:
    fake = torch_private_fakes.fake_tensor_class()
    return any(isinstance(tensor, fake) for tensor in tensors.values())


def _header(tensors: Mapping[str, Any], metadata: Mapping[str, str] | None) -> tuple[bytes, int]:
    """The header of a file, and the number of bytes of values after it."""
    names = {torch_name: name for name, torch_name in _TYPES.items()}
    descriptions: dict[str, Any] = {"__metadata__": {**(metadata or {}), **_MARK}}
    end = 0
    for name, tensor in sorted(tensors.items()):
        size = tensor.numel() * tensor.element_size()
        descriptions[name] = {
            "dtype": names[str(tensor.dtype).removeprefix("torch.")],
            "shape": list(tensor.shape),
            "data_offsets": [end, end + size],
        }
        end += size
    text = json.dumps(descriptions).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text, end
