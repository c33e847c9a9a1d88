"""For the tests of exports: names that break careless writers, and a reader of PNG."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import torch

import floodmark
from floodmark.reports.trace import Trace

#: Names that end strings, lines, columns, elements and files.
HOSTILE = (
    'quote " back \\ slash',
    "line\nbreak\r\nand\ttab",
    "comma, semicolon; and 'quote'",
    "</text><script>alert(1)</script>&amp;]]>",
    "nothing\0 after \x1b[31m red \x07",
    "lines \u2028 and \u2029, \ufffe \uffff, \N{RIGHT-TO-LEFT OVERRIDE}",
    "=1+1",
    "é漢🔥",
    "x" * 4096,
)

FOLDERS = ("parquet", "arrow", "tensorboard")
FORMATS = (
    "torch-snapshot",
    "speedscope",
    "perfetto",
    "chrome",
    "timeline",
    "svg",
    "png",
    "csv",
    "csv-steps",
    "collapsed",
    "flamegraph",
    *FOLDERS,
)


class Holder(torch.nn.Module):
    """A module whose children have those names."""

    def __init__(self) -> None:
        super().__init__()
        for name in HOSTILE:
            self.add_module(name.replace(".", ""), torch.nn.Linear(64, 64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for child in self.children():
            x = torch.relu(child(x))
        return x


def hostile_trace(folder: Path) -> Trace:
    """Two steps of a program all of whose names are hostile."""
    model = Holder()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    path = folder / "hostile.flood"
    kept = []
    with floodmark.trace(path, devices="cpu"):
        for _ in range(2):
            for name in HOSTILE:
                floodmark.mark(name)
                # The name of the function, and of its file.
                space: dict[str, object] = {"torch": torch, "kept": kept}
                source = "def f():\n    kept.append(torch.empty(1000))\n"
                code = compile(source, name.replace("\0", " "), "exec")
                exec(code, space)
                function = space["f"]
                function.__code__ = (
                    function.__code__.replace(co_name=name, co_qualname=name)
                    if hasattr(function.__code__, "co_qualname")
                    else function.__code__.replace(co_name=name)
                )
                with floodmark.phase(name):
                    function()
            model(torch.randn(32, 64)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    return Trace.open(path)


def png_size(content: bytes) -> tuple[int, int]:
    """Width and height of a picture; fails where its file or its pixels are not whole."""
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    chunks: dict[bytes, bytes] = {}
    at = 8
    while at < len(content):
        length, kind = struct.unpack(">I4s", content[at : at + 8])
        body = content[at + 8 : at + 8 + length]
        (checksum,) = struct.unpack(">I", content[at + 8 + length : at + 12 + length])
        assert zlib.crc32(kind + body) == checksum
        chunks[kind] = chunks.get(kind, b"") + body
        at += 12 + length
    assert kind == b"IEND"
    width, height, depth, colours = struct.unpack(">IIBB", chunks[b"IHDR"][:10])
    # Red, green, blue and opacity, a byte each.
    assert (depth, colours) == (8, 6)
    assert len(zlib.decompress(chunks[b"IDAT"])) == height * (1 + 4 * width)
    return width, height
