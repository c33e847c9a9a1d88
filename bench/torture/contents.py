"""Trace files with right checksums and wrong contents, which no checksum detects.

`made` writes files that each break one assumption about a recording: ids that nothing has, stacks
without an end, more devices than there are. `respoiled` takes a recording, changes values in its
tables, and writes the checksums again.
"""

from __future__ import annotations

import json
import random
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

_PRELUDE = b"FLOD\x01\x00\x00\x00"
_MAGIC = bytes((0xF1, 0x0D, 0x46, 0x52))
_HEADER, _EVENTS, _STACKS, _CODES, _MODULES, _LABELS, _TEXTS, _CHECKPOINT, _ENDING = range(1, 10)
_U8, _U16, _U32, _U64, _TEXT = pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(), pa.utf8()
#: The columns of each table, as `docs/trace-format.md` has them.
_LAYOUTS: dict[int, dict[str, pa.DataType]] = {
    _EVENTS: {
        "kind": _U8,
        "device": _U16,
        "thread": _U16,
        "micros_later": _U64,
        "addr": _U64,
        "bytes": _U64,
        "slack": _U64,
        "stack": _U32,
        "allocations_ago": _U32,
        "op": _U32,
        "phase": _U32,
        "stream": _U16,
        "pool": _U16,
        "flags": _U8,
    },
    _STACKS: {
        "id": _U32,
        "parent": _U32,
        "code": _U32,
        "line": _U32,
        "module": _U32,
        "flags": _U8,
    },
    _CODES: {"id": _U32, "first_line": _U32, "file": _TEXT, "name": _TEXT},
    _MODULES: {"id": _U32, "root": _U32, "class": _TEXT, "name": _TEXT},
    _LABELS: {"id": _U32, "category": _U8, "name": _TEXT, "shape": _TEXT, "dtype": _TEXT},
    _TEXTS: {"id": _U32, "kind": _U8, "text": _TEXT},
}
_OPTIONS = pa.ipc.IpcWriteOptions(compression="zstd")
_ALLOC, _FREE, _SEGMENT, _OOM, _STEP = 1, 2, 5, 9, 12
_CUDA = 1

Row = Mapping[str, int | str]


def _frame(kind: int, number: int, payload: bytes) -> bytes:
    body = struct.pack("<HH", kind, number & 0xFFFF) + payload
    return _MAGIC + struct.pack("<II", len(payload), zlib.crc32(body)) + body


def _file(frames: Sequence[tuple[int, bytes]]) -> bytes:
    numbered = enumerate(frames)
    return _PRELUDE + b"".join(_frame(kind, number, data) for number, (kind, data) in numbered)


def _schema(table: int) -> pa.Schema:
    columns = _LAYOUTS[table].items()
    return pa.schema([pa.field(name, kind, nullable=False) for name, kind in columns])


def _messages(table: int, columns: Mapping[str, Sequence[int | str]]) -> Iterator[bytes]:
    schema = _schema(table)
    arrays = [pa.array(columns[name], kind) for name, kind in _LAYOUTS[table].items()]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema, options=_OPTIONS) as stream:
        stream.write_batch(pa.record_batch(arrays, schema=schema))
    for message in pa.ipc.MessageReader.open_stream(sink.getvalue()):
        yield message.serialize().to_pybytes()


@dataclass
class Contents:
    """The rows of a file with one flush; what a row does not say is 0 or empty."""

    events: list[Row] = field(default_factory=list)
    stacks: list[Row] = field(default_factory=list)
    codes: list[Row] = field(default_factory=list)
    modules: list[Row] = field(default_factory=list)
    labels: list[Row] = field(default_factory=list)
    texts: list[Row] = field(default_factory=list)
    first_allocation: int = 0
    header: dict[str, object] = field(default_factory=dict)

    def file(self) -> bytes:
        header = {"session": "1", "floodmark": "0.1.0", **self.header}
        frames = [(_HEADER, json.dumps(header).encode())]
        tables = {
            _TEXTS: self.texts,
            _CODES: self.codes,
            _MODULES: self.modules,
            _STACKS: self.stacks,
            _LABELS: self.labels,
            _EVENTS: self.events,
        }
        for table, rows in tables.items():
            if not rows:
                continue
            columns = {
                name: [row.get(name, "" if kind is _TEXT else 0) for row in rows]
                for name, kind in _LAYOUTS[table].items()
            }
            frames += [(table, message) for message in _messages(table, columns)]
        checkpoint = bytearray(48)
        struct.pack_into("<III", checkpoint, 32, self.first_allocation, len(self.events), 0)
        return _file([*frames, (_CHECKPOINT, bytes(checkpoint)), (_ENDING, b"{}")])


def _alloc(**fields: int) -> Row:
    return {"kind": _ALLOC, "device": _CUDA, "micros_later": 1, "bytes": 1 << 20, **fields}


def _allocs(count: int, **fields: int) -> list[Row]:
    return [_alloc(addr=number << 20, **fields) for number in range(1, count + 1)]


def _code(**fields: int | str) -> Row:
    return {"id": 1, "first_line": 1, "file": "train.py", "name": "main", **fields}


def _stack(**fields: int) -> Row:
    return {"id": 1, "code": 1, "line": 7, **fields}


def _module(**fields: int | str) -> Row:
    return {"id": 1, "root": 1, "class": "Net", **fields}


def _deep(depth: int, **fields: int) -> list[Row]:
    return [_stack(id=at, parent=at - 1, **fields) for at in range(1, depth + 1)]


_HUGE = (1 << 32) - 1
_LONG = "x" * 70_000


def _made() -> dict[str, Contents]:
    nested = [_module(), _module(id=2, name="a.b"), _module(id=3, root=0)]
    on_devices = [_alloc(device=number, addr=1 << 20) for number in range(1 << 16)]
    ooms: list[Row] = [
        {"kind": _OOM, "device": _CUDA, "micros_later": 1, "bytes": 1 << 40, "stack": 1}
    ]
    streams: list[Row] = [{"id": at, "kind": 4, "text": hex(at)} for at in range(1, 60_000)]
    pools: list[Row] = [{"id": at, "kind": 5, "text": f"(0, {at})"} for at in range(1, 60_000)]
    return {
        "a function that is not in the file": Contents(
            _allocs(4, stack=1), [_stack(code=_HUGE)], [_code()]
        ),
        "a module that is not in the file": Contents(
            _allocs(4, stack=1), [_stack(module=_HUGE)], [_code()]
        ),
        "ids that are not in the file": Contents(
            [_alloc(stack=_HUGE, op=_HUGE, phase=_HUGE, stream=65535, pool=65535)],
        ),
        "labels that are not in the file": Contents(
            [_alloc(), {"kind": 11, "device": _CUDA, "stack": _HUGE, "allocations_ago": 1}]
        ),
        "a step with a huge number": Contents([*_allocs(2), {"kind": _STEP, "stack": _HUGE}]),
        "steps that count down": Contents(
            [*_allocs(2), *({"kind": _STEP, "stack": _HUGE - at} for at in range(1000))]
        ),
        "stacks 200,000 frames deep": Contents(
            _allocs(4, stack=200_000), _deep(200_000), [_code()]
        ),
        "modules 200,000 frames deep": Contents(
            _allocs(4, stack=200_000), _deep(200_000, module=3), [_code()], nested
        ),
        "a deep stack for each allocation": Contents(
            [_alloc(stack=at, addr=at << 20) for at in range(1, 100_001)],
            _deep(100_000),
            [_code()],
        ),
        "65,536 devices": Contents(on_devices),
        "200,000 failed allocations": Contents(
            [*_allocs(4, stack=1), *ooms * 200_000], [_stack()], [_code()]
        ),
        "failed allocations with 2,000 live blocks": Contents(
            [*_allocs(2000, stack=1), *ooms * 20_000], [_stack()], [_code()]
        ),
        "2,000,000 lost allocations": Contents(_allocs(4), first_allocation=2_000_000),
        "2,000,000 lost stacks": Contents(
            _allocs(4, stack=2_000_000), [_stack(id=2_000_000)], [_code()]
        ),
        "2,000,000 lost functions": Contents(
            _allocs(4, stack=1), [_stack(code=2_000_000)], [_code(id=2_000_000)]
        ),
        "a function with a long name": Contents(
            _allocs(4, stack=1), [_stack()], [_code(file=_LONG, name=_LONG)]
        ),
        "a module with a long name": Contents(
            _allocs(4, stack=1), [_stack(module=1)], [_code()], [_module(**{"class": _LONG})]
        ),
        "a label with a long name": Contents(
            [_alloc(), {"kind": 11, "device": _CUDA, "stack": 1, "allocations_ago": 1}],
            labels=[{"id": 1, "category": 1, "name": _LONG, "shape": _LONG, "dtype": _LONG}],
        ),
        "a phase with a long name": Contents(
            _allocs(4, phase=1, op=1), texts=[{"id": 1, "kind": 1, "text": _LONG}]
        ),
        "60,000 streams": Contents(
            [_alloc(addr=at << 20, stream=at) for at in range(1, 60_000)], texts=streams
        ),
        "60,000 streams and pools": Contents(
            [_alloc(addr=at << 20, stream=at, pool=at) for at in range(1, 60_000)], texts=pools
        ),
        "2,000,000 pairs of a pool and a stream": Contents(
            [
                *(
                    _alloc(addr=(pool * 1415 + stream) << 20, stream=stream, pool=1415 + pool)
                    for pool in range(1, 1415)
                    for stream in range(1, 1415)
                ),
                *ooms,
            ],
            [_stack()],
            [_code()],
            texts=[*streams[:1415], *pools[1415:2830]],
        ),
        "blocks at one address": Contents([_alloc(addr=0) for _ in range(20_000)]),
        "blocks that overlap": Contents([_alloc(addr=at, bytes=1 << 40) for at in range(20_000)]),
        "blocks of all memory there is": Contents(
            [_alloc(addr=(1 << 64) - 1, bytes=(1 << 64) - 1) for _ in range(100)]
        ),
        "segments of all memory there is": Contents(
            [
                {"kind": kind, "device": _CUDA, "addr": at, "bytes": (1 << 64) - 1}
                for kind in (5, 6, 7, 8, 19)
                for at in (0, 1, 1 << 63, (1 << 64) - 1)
            ]
        ),
        "times at the end of time": Contents(
            [_alloc(micros_later=(1 << 63) + at) for at in range(10)]
        ),
        "phases that never end": Contents(
            [{"kind": 14, "stack": 1, "micros_later": 1}] * 200_000 + _allocs(1),
            texts=[{"id": 1, "kind": 1, "text": "p"}],
        ),
        "200,000 steps": Contents(
            [*_allocs(2), *({"kind": _STEP, "stack": at} for at in range(200_000))]
        ),
        "65,536 threads": Contents([_alloc(thread=at, addr=at << 20) for at in range(1 << 16)]),
        "module names that contain each other": Contents(
            _allocs(4, stack=2),
            [_stack(module=1), _stack(id=2, parent=1, module=2)],
            [_code()],
            [_module(**{"class": "my.Net"}), _module(id=2, name="." * 1000)],
        ),
        "a world of 4,294,967,295 ranks": Contents(
            _allocs(2), header={"rank": _HUGE, "world_size": _HUGE, "local_rank": _HUGE}
        ),
    }


def made() -> Iterator[tuple[str, bytes]]:
    """Each file with what is wrong in it."""
    for what, contents in _made().items():
        yield what, contents.file()


#: Boundary values of ids, counts and sizes.
_EDGES = (0, 1, 2, 127, 128, 255, 256, 32767, 65535, 1 << 20, (1 << 31) - 1, 1 << 31, _HUGE - 1)
_WIDE = (*_EDGES, _HUGE, 1 << 40, (1 << 63) - 1, 1 << 63, (1 << 64) - 2, (1 << 64) - 1)
_NAMES = ("", ".", "a.b", ".a", "a.", "\x1b]0;x\x07", "\u202e", "<", ">", "x.<y>", _LONG)


def respoiled(data: bytes, chance: random.Random) -> bytes:
    """The same recording with other values in some rows of one or a few of its tables."""
    frames = list(_frames(data))
    tables = [at for at, (kind, payload) in enumerate(frames) if _is_rows(kind, payload)]
    for at in chance.sample(tables, min(len(tables), chance.choice((1, 1, 2, 3)))):
        kind, payload = frames[at]
        frames[at] = (kind, _spoiled_rows(kind, payload, chance))
    if chance.random() < 0.2:
        at = chance.choice([at for at, (kind, _) in enumerate(frames) if kind == _CHECKPOINT])
        frames[at] = (_CHECKPOINT, _spoiled_checkpoint(frames[at][1], chance))
    return _file(frames)


def _frames(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = len(_PRELUDE)
    while at < len(data):
        length, _, kind, _ = struct.unpack_from("<IIHH", data, at + 4)
        yield kind, data[at + 16 : at + 16 + length]
        at += 16 + length


def _is_rows(kind: int, payload: bytes) -> bool:
    return kind in _LAYOUTS and pa.ipc.read_message(payload).type == "record batch"


def _spoiled_rows(kind: int, payload: bytes, chance: random.Random) -> bytes:
    schema = _schema(kind)
    batch = pa.ipc.read_record_batch(pa.ipc.read_message(payload), schema)
    columns = {name: batch.column(name).to_pylist() for name in schema.names}
    for _ in range(chance.choice((1, 1, 2, 8, 64))):
        name = chance.choice(schema.names)
        kind_of_value = schema.field(name).type
        values = columns[name]
        first = chance.randrange(len(values))
        for row in range(first, min(len(values), first + chance.choice((1, 1, 1, 100, 1 << 20)))):
            values[row] = _value(kind_of_value, values[row], chance)
    *_, message = _messages(kind, columns)
    return message


def _value(kind: pa.DataType, old: int | str, chance: random.Random) -> int | str:
    if kind == _TEXT:
        return chance.choice(_NAMES)
    assert isinstance(old, int)
    edges = [edge for edge in _WIDE if edge < 1 << kind.bit_width]
    others: tuple[Callable[[], int], ...] = (
        lambda: chance.choice(edges),
        lambda: old ^ 1 << chance.randrange(kind.bit_width),
        lambda: (old + chance.choice((-1, 1, 7))) % (1 << kind.bit_width),
    )
    return chance.choice(others)()


def _spoiled_checkpoint(payload: bytes, chance: random.Random) -> bytes:
    changed = bytearray(payload)
    at = chance.randrange(0, 48, 4)
    changed[at : at + 4] = struct.pack("<I", chance.choice(_EDGES))
    return bytes(changed)
